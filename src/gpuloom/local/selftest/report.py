"""What a self-test found, step by step, as values that can be printed and attached to a report."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How a step ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return self is not Outcome.FAILED


class SkipStepError(Exception):
    """A step cannot be done here; the message says what is missing."""


class StepFailedError(Exception):
    """Something is not as it should be; the message says what was expected and what is there."""


class StepResult(msgspec.Struct, frozen=True):
    """One step: its name, how it ended, what was found, and how long it took."""

    name: str
    outcome: Outcome
    text: str
    seconds: float


class TestedCard(msgspec.Struct, frozen=True):
    """A card as gpuloom read it; ``links`` is None where the driver does not tell how cards are connected."""

    uuid: str
    name: str
    memory_mib: int | None
    pci_bus_id: str
    numa: int
    links: int | None = 0


class SelfTestReport(msgspec.Struct, kw_only=True):
    """All of it; ``date`` is when it began, in UTC."""

    gpuloom: str
    date: str
    driver: str = ""
    python_library: str = ""
    limiter: str = ""
    cards: list[TestedCard] = []
    steps: list[StepResult] = []

    @property
    def has_failed(self) -> bool:
        """Whether any step failed."""
        return any(not step.outcome.is_good for step in self.steps)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Record a step: what the block puts into the list is what it found, and its error is told after that."""
        found: list[str] = []
        begin = time.monotonic()
        outcome = Outcome.PASSED
        try:
            yield found
        except SkipStepError as error:
            outcome = Outcome.SKIPPED
            found.append(str(error))
        except StepFailedError as error:
            outcome = Outcome.FAILED
            found.append(str(error))
        seconds = round(time.monotonic() - begin, 3)
        self.steps.append(StepResult(name, outcome, "; ".join(found), seconds))
