"""``fragmentation``: nodes and cards where a pod takes least of what cards are worth to the pods to come.

What that is, ``fragmentation`` tells; here is the policy under its word. What a placement costs follows from all nodes,
from the pods that are expected and from the CPU of nodes, so ranks are not made here: who holds these asks for them
(``filtering/fragmentation_ranks.py``).
"""

from typing import Any

import numpy as np

from gpuloom.engine.scoring.card_order import CardOrder, SortKey
from gpuloom.engine.scoring.first_fit import LOWEST_INDEX
from gpuloom.engine.scoring.fragmentation.chooser import STEP
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.engine.scoring.policy import NamedPolicy, NodePolicy
from gpuloom.engine.scoring.weights import Weights
from gpuloom.model.cards import CardFacts
from gpuloom.model.request_columns import CardRequest


class FragmentationPolicy(NodePolicy, frozen=True, gc=False):
    """Ranks nodes by what a pod costs there. Pods of other CPU cost something else, so it is a part of the policy.

    Ranks by scores are 0: those that count come later, from all nodes. They are shown as how many cards less are
    worthless than before.

    cpu_milli  milli-cores that the pod requests
    """

    best: str = "least stranding"
    sign: int = 0
    shown: float = STEP / WHOLE
    cpu_milli: int = 0

    @property
    def looks_ahead(self) -> bool:
        """Whether ranks follow from the pods to come and from CPU, too."""
        return True

    def for_pod(self, cpu_milli: int) -> "FragmentationPolicy":
        """Return the policy for a pod that requests so many milli-cores."""
        return FragmentationPolicy(cpu_milli=cpu_milli)

    def tell_best(self, node: str, best: float, next_best: float) -> str:
        """Say that less is stranded on a node than on the next, and how much."""
        if best == next_best:
            return f"on {node}, the first named, as little is stranded as on the next"
        return f"on {node} {best - next_best:.2f} cards less are stranded than on the next"


def _measure_free_part(cards: CardFacts[Any], _required: CardRequest[Any, Any], _weights: Weights) -> Any:
    """Return the smaller of free memory and free cores as parts of the card."""
    memory = (cards.total_memory_mib - cards.used_memory_mib) / (cards.total_memory_mib + (cards.total_memory_mib == 0))
    cores = (cards.total_cores - cards.used_cores) / (cards.total_cores + (cards.total_cores == 0))
    # Where nothing is counted, nothing limits.
    return np.minimum(memory + (cards.total_memory_mib == 0), cores + (cards.total_cores == 0))


LEAST_FREE = SortKey("least free share first", _measure_free_part, yields=True)
"""The order of cards where each pod's cost on each of them is not known, as for pods of several containers."""
_ORDER: CardOrder = (LEAST_FREE, LOWEST_INDEX)


FRAGMENTATION = NamedPolicy(
    word="fragmentation",
    node=FragmentationPolicy(),
    orders={"numa-first": _ORDER, "score-first": _ORDER},
    key=LEAST_FREE,
    chooses_cards=True,
)
