"""The interface to the use of the node's cards, and the task that reads it.

The device plugin's interface says which cards there are; this one says what happens on them. A driver that does not
answer must not delay anything else, so its answers are read beside the rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuloom.node.clock import Sleep
from gpuloom.node.errors import CardReadError
from gpuloom.node.monitor.complaints import Complaints

_DRIVER = "the driver"


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A program that computes on a card; the memory is None when the driver does not tell."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CardUse:
    """What happens on one card; utilizations are 0 to 100.

    None if the card cannot tell: its utilization when it is divided, its memory when it uses the machine's memory.
    """

    uuid: str
    index: int
    name: str
    memory_used_bytes: int | None
    gpu_percent: int | None
    memory_controller_percent: int | None
    processes: tuple[CardProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class CardReading:
    """The cards that answered, by index; ``failures`` says by card name why others did not."""

    cards: tuple[CardUse, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)


class CardUseSource(Protocol):
    """Tells what happens on cards. Both methods raise CardReadError when the driver does not answer."""

    async def read(self) -> CardReading:
        """Open the driver if needed, and ask every card."""

    async def release(self) -> None:
        """Close the driver, so that a card can be divided; the next reading opens it again."""


class CardWatch:
    """Reads the cards again and again; ``reading`` is None while the driver does not answer, or must be left alone."""

    def __init__(self, source: CardUseSource, mig_lock: Path, *, period_s: float, sleep: Sleep) -> None:
        self.reading: CardReading | None = None
        self._source = source
        self._mig_lock = mig_lock
        self._period_s = period_s
        self._sleep = sleep
        self._complaints = Complaints("card")

    @property
    def is_paused(self) -> bool:
        """Whether a card is being divided, so that nobody may use the driver."""
        return self._mig_lock.exists()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await self._sleep(self._period_s)

    async def read(self) -> None:
        """Ask the driver once, or close it while a card is being divided."""
        reading, failures = None, {}
        try:
            if self.is_paused:
                await self._source.release()
            else:
                reading = await self._source.read()
                failures = dict(reading.failures)
        except CardReadError as error:
            failures = {_DRIVER: str(error)}
        self.reading = reading
        self._complaints.replace(failures)
