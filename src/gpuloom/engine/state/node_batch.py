"""The cards of some nodes, or of one, to place a pod on."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from gpuloom.engine.state.partitions import GeometryPartition, Partition
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.nodecards import Facts, NodeCards

if TYPE_CHECKING:
    from gpuloom.engine.state.card_table import CardTable


class NodeBatch(msgspec.Struct, eq=False):
    """Cards as one list, node after node, and laid out with a row for each node; usage is the pod's own business.

    cells       where in the list each card of a row stands; ``there`` which cells are cards, others repeat one
    partitions  state of divided cards, by place in the list
    registered  what each node registered, ``facts_numbers`` which of the table's facts it says
    """

    table: "CardTable"
    cards: Cards
    cells: Ints
    there: Flags
    uuids: Sequence[str]
    partitions: dict[int, Partition]
    registered: Sequence[NodeCards]
    facts_numbers: Ints

    def __len__(self) -> int:
        return len(self.there)

    @property
    def totals(self) -> Ints:
        """How many cards each node has."""
        return np.asarray(np.count_nonzero(self.there, axis=1), np.int64)

    @property
    def facts(self) -> list[Facts]:
        """What each node says of all its cards."""
        return [one.facts for one in self.registered]

    @property
    def facts_of_cards(self) -> Ints:
        """Which of the table's facts hold for each card."""
        return np.repeat(self.facts_numbers, self.totals)

    def copy(self) -> "NodeBatch":
        """Return a copy whose usage may change without touching this one."""
        return msgspec.structs.replace(self, cards=self.cards.scratch(), partitions=dict(self.partitions))

    def keep_geometries(self, later: "NodeBatch") -> None:
        """Divide cards as a later copy of this batch has divided them; what is in use of them there is free here."""
        for card, before in self.partitions.items():
            after = later.partitions[card]
            if not (isinstance(before, GeometryPartition) and isinstance(after, GeometryPartition)):
                continue
            if before.chosen != after.chosen:
                self.partitions[card] = kept = replace(before, chosen=after.chosen)
                self.cards.free_instance_mib[card] = kept.largest_free_mib

    def frozen(self) -> "NodeBatch":
        """Return a copy that later changes of the table do not show in."""
        return msgspec.structs.replace(self, cards=self.cards.rows(np.arange(len(self.cards))))


@lru_cache(64)
def lay_out_one(cards: int) -> tuple[Ints, Flags]:
    """Return cells of one node with so many cards, and that all of them are there; nobody may change them."""
    return np.arange(cards)[None], np.ones((1, cards), bool)
