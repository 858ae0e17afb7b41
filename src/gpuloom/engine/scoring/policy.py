"""What a placement policy is: how nodes are ranked, and in which order the cards of a node are tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuloom.engine.scoring.card_order import CardOrder, DeviceSort, SortKey
from gpuloom.model.cards import Cards, Ints, RuleCodes
from gpuloom.model.request_columns import RequestColumns


@dataclass(frozen=True, slots=True)
class NodesToRank:
    """Nodes before a policy, with all that their rank may depend on.

    cards     of all nodes; rows ``starts`` to ``ends`` are those of a node, by position
    which     positions of the nodes to rank: one, a slice or a column
    required  what the request needs of each card
    codes     by row, 0 for a card that can serve it
    """

    cards: Cards
    starts: Ints
    ends: Ints
    which: int | slice | Ints
    required: RequestColumns
    codes: RuleCodes


class NodePolicy(msgspec.Struct, frozen=True, gc=False):
    """Ranks nodes that fit: by HAMi's score, unless a policy of a class of its own looks at the nodes.

    A policy has no state: ranks follow from the nodes and the request, and are remembered by equivalence class until a
    node changes. Only ``fragmentation`` needs more, which is written for it alone: ranks that follow from all nodes
    (made in ``FilterCache``), the pods to come (``Outlook``), and what they cannot use (``FragmentationView``).

    best   what is said of the node that comes first
    sign   1 where HAMi takes the node with the highest score, -1 with the lowest (then vendors subtract what they add),
           0 where scores do not count
    shown  what ranks are multiplied by in HAMi's texts
    """

    best: str
    sign: int
    shown: float

    @property
    def looks_ahead(self) -> bool:
        """Whether ranks follow from the pods to come and from CPU, too (``Outlook``)."""
        return False

    def for_pod(self, cpu_milli: int) -> "NodePolicy":  # noqa: ARG002 - policies that look ahead need it
        """Return the policy for a pod that requests so many milli-cores, where it looks ahead."""
        return self

    def rank(self, scores: Any, _nodes: NodesToRank) -> Any:
        """Return one number a node, the larger the better. ``scores`` are HAMi's, with what the vendor adds."""
        return scores if self.sign == 1 else scores * self.sign

    def rank_in_common(self, scores: Any) -> Any:
        """Return what the ranks of one node by several vendors' cards have in common, from HAMi's score alone."""
        return scores if self.sign == 1 else scores * self.sign

    def tell_best(self, node: str, best: float, next_best: float) -> str:  # noqa: ARG002 - others tell by how much
        """Say in a clause why a node comes first, from the scores of the first two as texts show them."""
        return f"{node} is the {self.best} of them"

    def show(self, ranks: Any) -> Any:
        """Return the scores that HAMi's texts show for these ranks."""
        return ranks * self.shown


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A placement policy under its word, for nodes and for cards.

    orders  in which order cards are tried, by what counts first
    key     the same as one of several keys, where policies are joined by commas
    chooses_cards  nodes are ranked for the cards that it would take: it chooses these, too, unless a pod says how
    """

    word: str
    node: NodePolicy
    orders: Mapping[DeviceSort, CardOrder]
    key: SortKey
    chooses_cards: bool = False
