"""The card table as it was at one moment, at the price of the nodes that change afterwards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuloom.engine.state.node_batch import NodeBatch

if TYPE_CHECKING:
    from gpuloom.engine.state.card_table import CardTable


class Snapshot:
    """The nodes of a table as they were at one moment. A node is copied only when it changes.

    names  of the nodes that there were, by position
    """

    def __init__(self, table: "CardTable") -> None:
        self._table = table
        self.names: Sequence[str] = table.names
        self._kept: dict[int, NodeBatch] = {}

    def copy_node(self, position: int) -> NodeBatch:
        """Return a node's cards as they were."""
        kept = self._kept.get(position)
        return self._table.copy_node(position) if kept is None else kept

    def has_changed(self, position: int) -> bool:
        """Tell whether a node is not any more as it was."""
        return position in self._kept

    def keep(self, position: int) -> None:
        """Copy a node that is about to change, unless it was copied before; a new node has nothing to keep."""
        if position not in self._kept and self._table.rows_of(position).stop:
            self._kept[position] = self._table.copy_node(position).frozen()
