"""How unimportant the least important pod on each card is: an index that is caught up when somebody asks."""

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Ledger
from gpuloom.model.cards import Ints

NOBODY = 2**63 - 1
"""Stands for the lowest priority on a card on which nobody is."""
_NODES_A_STEP = 50
_MOST_ROUNDS = 3


@dataclass(slots=True)
class _Column:
    """What is known of one vendor's cards.

    lowest  by row of the table
    mark    of the table's change log, -1 for never
    unread  positions of nodes that changed since they were read: whoever asks may leave in the middle
    """

    table: CardTable
    lowest: Ints
    mark: int = -1
    unread: set[int] = field(default_factory=set)

    def note_changed(self) -> None:
        """Note which nodes have changed until now."""
        log = self.table.change_log
        changed = log.since(self.mark) if self.mark >= 0 else None
        self.mark = log.mark
        self.unread.update(self.table.positions.values() if changed is None else changed)


@dataclass(slots=True)
class LowestPriorities:
    """Keeps by card the lowest priority of those who hold a share of it. Whoever makes many plans keeps one."""

    _columns: dict[str, _Column] = field(default_factory=dict)

    def catch_up(self, state: ClusterState, word: str) -> Generator[None, None, Ints]:
        """Return the lowest priority on each card of one vendor, by row; NOBODY where nobody is.

        In steps; the first time reads all reservations, later ones those of the nodes that changed. A node that changes
        meanwhile is read again, a few times; who gets the column may change it.
        """
        table = state[word].table
        column = self._columns.get(word)
        if column is None or column.table is not table:
            column = self._columns[word] = _Column(table, np.full(0, NOBODY))
        for _ in range(_MOST_ROUNDS):
            column.note_changed()
            positions = sorted(column.unread)
            if not positions:
                break
            for first in range(0, len(positions), _NODES_A_STEP):
                yield
                batch = positions[first : first + _NODES_A_STEP]
                _read(column, state.ledger, word, batch)
                column.unread.difference_update(batch)
        _fit(column)
        return column.lowest[: len(table.cards)].copy()


def _fit(column: _Column) -> None:
    """Make the column as long as the table."""
    missing = len(column.table.cards) - len(column.lowest)
    if missing > 0:
        column.lowest = np.concatenate([column.lowest, np.full(missing, NOBODY)])


def _read(column: _Column, ledger: Ledger, word: str, positions: list[int]) -> None:
    _fit(column)
    table, lowest = column.table, column.lowest
    for position in positions:
        rows = table.rows_of(position)
        known = ledger.lowest_priorities(table.names[position], word)
        lowest[rows] = [known.get(uuid, NOBODY) for uuid in table.uuids[rows]]
