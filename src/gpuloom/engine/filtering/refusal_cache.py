"""Why no node served, remembered for pods that fit nowhere: they come again and again, mostly without a change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.filtering.candidates import Candidates
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.state.card_table import CardTable, Version
from gpuloom.model.refusal import Refusal

MOST_REMEMBERED = 8
"""Each takes 0.3 MB at 5,000 nodes."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Why no node serves, and when that was so: under these results, with these nodes closed."""

    results: FilterResults
    seen: Version
    closed: Mapping[str, Refusal]
    refusals: dict[str, Refusal]


@dataclass(slots=True)
class RefusalCache:
    """Remembers refusals of all nodes of a table. What it returns is shared, and must not be changed."""

    _remembered: list[_Remembered] = field(default_factory=list)

    def recall(
        self, table: CardTable, results: FilterResults, candidates: Candidates, closed: Mapping[str, Refusal]
    ) -> dict[str, Refusal] | None:
        """Return why none of the candidates serves, found out anew of nodes that changed; None if it must be of all.

        closed  nodes that do not serve whatever their cards say, and why
        """
        if not self._are_all(table, candidates):
            return None
        last = next((one for one in self._remembered if one.results is results and one.closed == closed), None)
        changed = table.changed_since(last.seen) if last else None
        if last is None or changed is None:
            return None
        if not changed:
            return last.refusals
        refusals = _refuse_changed(changed, table, last)
        self.note(table, results, candidates, closed, refusals)
        return refusals

    def note(
        self,
        table: CardTable,
        results: FilterResults,
        candidates: Candidates,
        closed: Mapping[str, Refusal],
        refusals: dict[str, Refusal],
    ) -> None:
        """Remember why none of the candidates serves."""
        if self._are_all(table, candidates):
            others = [one for one in self._remembered if one.results is not results or one.closed != closed]
            one = _Remembered(results, table.version, dict(closed), refusals)
            self._remembered = [*others, one][-MOST_REMEMBERED:]

    @staticmethod
    def _are_all(table: CardTable, candidates: Candidates) -> bool:
        """Whether these are all nodes with cards and no others: candidates never name a node twice."""
        return not candidates.unknown and len(candidates.known) == len(table.positions)


def _refuse_changed(changed: set[int], table: CardTable, last: _Remembered) -> dict[str, Refusal]:
    """Return the refusals of the last time, found out anew for nodes that changed; the same object if none did."""
    # A node without cards of this vendor may change as well: those of others count in its score.
    names = {table.names[position]: position for position in changed}
    positions = {name: at for name, at in names.items() if name in table.positions and name not in last.closed}
    refusals = last.results.refuse(table, np.fromiter(positions.values(), np.int64))
    news = {
        name: refusal for name, refusal in zip(positions, refusals, strict=True) if last.refusals[name] is not refusal
    }
    return last.refusals | news if news else last.refusals
