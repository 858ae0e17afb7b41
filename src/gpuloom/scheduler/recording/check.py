"""Compares a replay with the answers that a recording already contains."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.bounded import FifoDict
from gpuloom.scheduler.recording.answers import Answer
from gpuloom.scheduler.recording.comparison import MISSING, Difference, compare
from gpuloom.scheduler.recording.lines import AnswerLine, key_of

KEPT_ANSWERS = 10_000
"""An answer line may stand so many answers behind its input line; a recording of a busy process interleaves them."""


@dataclass(slots=True)
class ReplayCheck:
    """Counts the recorded answers and those that differ."""

    answers: int = 0
    differing: int = 0
    _by_id: FifoDict[str, Answer] = field(default_factory=lambda: FifoDict(KEPT_ANSWERS))
    _last: Answer | None = None

    def note(self, answer: Answer) -> None:
        """Take a replayed answer; its recorded one, if there is one, follows."""
        self._last = answer
        if "id" in answer:
            self._by_id[key_of(answer["id"])] = answer

    def compare(self, line: AnswerLine, text: bytes) -> Iterator[Difference]:
        """Compare one recorded answer with the replayed one of the same id, or the last when it has no id."""
        self.answers += 1
        replayed = self._last if line.id is None else self._by_id.get(key_of(line.id))
        recorded = msgspec.json.decode(text)
        # As JSON, because that is what a replay prints.
        given = MISSING if replayed is None else msgspec.json.decode(msgspec.json.encode(replayed))
        differences = compare(_without_time(recorded), given)
        self.differing += bool(differences)
        yield from differences

    @property
    def summary(self) -> str:
        """The last line that is printed."""
        return f"{self.answers} answers, {self.differing} differ"


def _without_time(recorded: Answer) -> Answer:
    """A live recording says when it answered; a replay has no time of its own."""
    return {key: value for key, value in recorded.items() if key != "time"}
