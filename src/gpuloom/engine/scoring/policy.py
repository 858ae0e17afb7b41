"""What a placement policy is: how nodes are ranked, and in which order the cards of a node are tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuloom.engine.scoring.card_order import CardOrder, DeviceSort, SortKey


class NodePolicy(msgspec.Struct, frozen=True, gc=False):
    """Ranks nodes that fit.

    A policy has no state: ranks follow from the nodes and the request, and are remembered by equivalence class until a
    node changes.

    best   what is said of the node that comes first
    sign   1 where HAMi takes the node with the highest score, -1 with the lowest (then vendors subtract what they add),
           0 where scores do not count
    shown  what ranks are multiplied by in HAMi's texts
    """

    best: str
    sign: int
    shown: float

    def rank(self, scores: Any) -> Any:
        """Return one number a node, the larger the better. ``scores`` are HAMi's, with what vendors add or without."""
        return scores * self.sign

    def show(self, ranks: Any) -> Any:
        """Return the scores that HAMi's texts show for these ranks."""
        return ranks * self.shown


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A placement policy under its word, for nodes and for cards.

    orders  in which order cards are tried, by what counts first
    key     the same as one of several keys, where policies are joined by commas
    """

    word: str
    node: NodePolicy
    orders: Mapping[DeviceSort, CardOrder]
    key: SortKey
