"""What was told last about pods that fit nowhere: they ask again and again, and mostly nothing has changed since."""

from collections import deque
from dataclasses import dataclass, field

from gpuloom.engine.candidates import Candidates
from gpuloom.engine.table import CardTable
from gpuloom.engine.verdicts import Verdicts
from gpuloom.model.refusal import Refusal

MOST_TOLD = 8
"""Each takes 0.3 MB at 5,000 nodes."""


@dataclass(frozen=True, slots=True)
class _Telling:
    """Why no node serves, and when that was so: under these verdicts, with nothing changed since the mark."""

    verdicts: Verdicts
    mark: int
    registrations: int
    refusals: dict[str, Refusal]


@dataclass(slots=True)
class Told:
    """Remembers refusals of all nodes of a table. What it returns is shared, and must not be changed."""

    _tellings: deque[_Telling] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))

    def recall(self, table: CardTable, verdicts: Verdicts, candidates: Candidates) -> dict[str, Refusal] | None:
        """Return why none of the candidates serves, None when that must be found out."""
        if not self._are_all(table, candidates):
            return None
        for telling in self._tellings:
            if telling.verdicts is verdicts:
                is_current = (telling.mark, telling.registrations) == (table.journal.mark, table.registrations)
                return telling.refusals if is_current else None
        return None

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
