"""The rows of all cards, those of a node beside each other; rows never move (decision 003)."""

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import CardNumbers, Cards, Ints

NO_NODE = 0
"""The node of rows that belong to none."""
FIRST_CAPACITY = 64

_Number = TypeVar("_Number", np.int64, np.float32)
_FreeRows: TypeAlias = "tuple[int, _FreeRows] | None"
"""First rows of nodes that are gone, the last one first; a fork goes on with a list of its own."""


class CardRows:
    """Columns with room to grow.

    uuids  card id, by row
    cards  a view of the columns, another one when there are more rows
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self._free: dict[int, _FreeRows] = {}
        # Flags are columns of 0 and 1 here; the rules compare with 0, so they need no other type.
        self._columns: Ints = np.zeros((len(Cards.__struct_fields__), FIRST_CAPACITY), np.int64)
        self.cards = self._view()

    def fork(self) -> "CardRows":
        """Return rows of their own that are as these are now."""
        twin = CardRows()
        twin.uuids, twin._free, twin._columns = self.uuids.copy(), self._free.copy(), self._columns.copy()
        twin.cards = twin._view()
        return twin

    def pick(self, rows: Ints, nodes: Ints) -> "CardRows":
        """Return rows of their own that are as some of these are now, but are of other nodes."""
        twin = CardRows()
        while len(rows) > twin._columns.shape[1]:
            twin._columns = double(twin._columns)
        twin._columns[:, : len(rows)] = self._columns[:, rows]
        twin.uuids = [self.uuids[row] for row in rows.tolist()]
        twin.cards = twin._view()
        twin.cards.node[:] = nodes
        return twin

    def claim(self, count: int) -> slice:
        """Return as many rows for a node: those of one that is gone, else new ones at the end."""
        if (free := self._free.get(count)) is not None:
            first, self._free[count] = free
        else:
            first = len(self.uuids)
            while first + count > self._columns.shape[1]:
                self._columns = double(self._columns)
            self.uuids.extend([""] * count)
            self.cards = self._view()
        return slice(first, first + count)

    def release(self, rows: slice) -> None:
        """Let another node with as many cards have the rows of a node."""
        if count := rows.stop - rows.start:
            self._free[count] = rows.start, self._free.get(count)
        self.cards.node[rows] = NO_NODE
        self.uuids[rows] = [""] * count

    def clear(self, rows: slice) -> None:
        """Set all of some rows to 0: nothing is used, nothing closed, no card is in a group."""
        self._columns[:, rows] = 0

    def find(self, rows: slice, uuid: str) -> int | None:
        """Look through a node's few rows, which takes less memory than an index; no two of its cards have one id."""
        for row in range(rows.stop - 1, rows.start - 1, -1):
            if self.uuids[row] == uuid:
                return row
        return None

    def list_numbers(self, rows: slice) -> list[CardNumbers]:
        """Return some cards one by one, as plain numbers."""
        return [CardNumbers(*facts) for facts in zip(*self._columns[:, rows].tolist(), strict=True)]

    def state_of(self, rows: slice) -> bytes:
        """Return all that the columns say of some cards, apart from whose they are."""
        # The first column is the node.
        return self._columns[1:, rows].tobytes()

    def _view(self) -> Cards:
        return Cards(*self._columns[:, : len(self.uuids)])


def double(column: NDArray[_Number]) -> NDArray[_Number]:
    """Return a column with twice the room, the new half of it zeros."""
    doubled = np.zeros((*column.shape[:-1], 2 * column.shape[-1]), column.dtype)
    # Memory that is not written to is not taken from the system.
    doubled[..., : column.shape[-1]] = column
    return doubled
