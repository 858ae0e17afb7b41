"""What was told last about pods that fit nowhere: they ask again and again, and mostly nothing has changed since."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.candidates import Candidates
from gpuloom.engine.table import CardTable
from gpuloom.engine.verdicts import Verdicts
from gpuloom.model.refusal import Refusal

MOST_TOLD = 8
"""Each takes 0.3 MB at 5,000 nodes."""


@dataclass(frozen=True, slots=True)
class _Telling:
    """Why no node serves, and when that was so: under these verdicts, at the mark."""

    verdicts: Verdicts
    mark: int
    registrations: int
    refusals: dict[str, Refusal]


@dataclass(slots=True)
class Told:
    """Remembers refusals of all nodes of a table. What it returns is shared, and must not be changed."""

    _tellings: deque[_Telling] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))

    def recall(self, table: CardTable, verdicts: Verdicts, candidates: Candidates) -> dict[str, Refusal] | None:
        """Return why none of the candidates serves, found out anew of nodes that changed; None if it must be of all."""
        if not self._are_all(table, candidates):
            return None
        last = next((telling for telling in self._tellings if telling.verdicts is verdicts), None)
        changed = table.changed_since(last.mark, last.registrations) if last else None
        if last is None or changed is None:
            return None
        if not changed:
            return last.refusals
        refusals = _tell_of(changed, table, last)
        self.note(table, verdicts, candidates, refusals)
        return refusals

    def note(self, table: CardTable, verdicts: Verdicts, candidates: Candidates, refusals: dict[str, Refusal]) -> None:
        """Remember why none of the candidates serves."""
        if self._are_all(table, candidates):
            others = [telling for telling in self._tellings if telling.verdicts is not verdicts]
            telling = _Telling(verdicts, table.journal.mark, table.registrations, refusals)
            self._tellings = deque([*others, telling], maxlen=MOST_TOLD)

    @staticmethod
    def _are_all(table: CardTable, candidates: Candidates) -> bool:
        """Whether these are all nodes with cards and no others: candidates never name a node twice."""
        return not candidates.unknown and len(candidates.known) == len(table.positions)


def _tell_of(changed: set[int], table: CardTable, last: _Telling) -> dict[str, Refusal]:
    """Return what was told last, but anew of nodes that changed; the very same if that is the same."""
    # A node without cards of this vendor may change as well: those of others count in its score.
    positions = {name: position for position in changed if (name := table.names[position]) in table.positions}
    told = last.verdicts.refuse(table, np.fromiter(positions.values(), np.int64))
    news = {name: refusal for name, refusal in zip(positions, told, strict=True) if last.refusals[name] is not refusal}
    return last.refusals | news if news else last.refusals
