"""``fragmentation``: nodes and cards where a pod takes least of what cards are worth to the pods to come.

What that is, ``fragmentation`` tells; here is the policy under its word. What a placement costs follows from all nodes,
from the pods that are expected and from the CPU of nodes, so ranks are not made here: who holds these asks for them
(``filtering/fragmentation_ranks.py``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuloom.engine.scoring.card_order import LOWEST_NUMA, CardOrder, SortKey
from gpuloom.engine.scoring.first_fit import LOWEST_INDEX
from gpuloom.engine.scoring.fragmentation.chooser import STEP
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.engine.scoring.policy import NamedPolicy, NodesToRank
from gpuloom.engine.scoring.weights import Weights
from gpuloom.model.cards import CardFacts
from gpuloom.model.request_columns import CardRequest


@dataclass(frozen=True, slots=True)
class FragmentationPolicy:
    """Ranks nodes by what a pod costs there. Pods of other CPU cost something else, so it is a part of the policy.

    cpu_milli  milli-cores that the pod requests
    """

    cpu_milli: int = 0

    @property
    def best(self) -> str:
        """What is said of the node that comes first."""
        return "least stranding"

    @property
    def lowest_score_wins(self) -> bool:
        """Vendors add nothing to ranks."""
        return False

    def rank(self, scores: Any, _nodes: NodesToRank) -> Any:
        """Return 0 for every node: ranks come later, from all of them."""
        return scores * np.float32(0)

    def rank_in_common(self, scores: Any) -> Any:
        """Return 0 for every node: what a pod takes of several vendors' cards costs the sum."""
        return scores * 0.0

    def show(self, ranks: Any) -> Any:
        """Return how many cards less are worthless than before, in steps of the policy."""
        return ranks * (STEP / WHOLE)


def _measure_free_part(cards: CardFacts[Any], _required: CardRequest[Any, Any], _weights: Weights) -> Any:
    """Return the smaller of free memory and free cores as parts of the card."""
    memory = (cards.total_memory_mib - cards.used_memory_mib) / (cards.total_memory_mib + (cards.total_memory_mib == 0))
    cores = (cards.total_cores - cards.used_cores) / (cards.total_cores + (cards.total_cores == 0))
    # Where nothing is counted, nothing limits.
    return np.minimum(memory + (cards.total_memory_mib == 0), cores + (cards.total_cores == 0))


LEAST_FREE = SortKey("least free share first", _measure_free_part)
"""The order of cards where each pod's cost on each of them is not known, as for pods of several containers."""
_ORDER: CardOrder = (LEAST_FREE, LOWEST_INDEX)


def is_by_cost(order: CardOrder) -> bool:
    """Tell whether cards are tried by what the pod costs on each, where that is known.

    With NUMA binding it is known of pods of one card alone.
    """
    return order[:1] == (LEAST_FREE,) or order[:2] == (LOWEST_NUMA, LEAST_FREE)


FRAGMENTATION = NamedPolicy(
    word="fragmentation",
    node=FragmentationPolicy(),
    orders={"numa-first": _ORDER, "score-first": _ORDER},
    key=LEAST_FREE,
)
