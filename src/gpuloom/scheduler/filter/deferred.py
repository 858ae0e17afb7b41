"""Work that an answer does not wait for, such as the texts of events: done after it, in time slices."""

import asyncio
from collections import deque
from collections.abc import Iterator

import structlog

from gpuloom.scheduler.timeslice import TimeSlice

MOST_WAITING = 256
"""Every piece of work may hold a snapshot of the cards."""

_log = structlog.get_logger(__name__)


class DeferredWork:
    """Does pieces of work in the order in which they came, a time slice at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Iterator[None]] = deque()
        self._arrived = asyncio.Event()

    def add(self, work: Iterator[None]) -> bool:
        """Take a piece of work, to be continued from step to step; False if there is too much already."""
        if len(self._waiting) >= MOST_WAITING:
            return False
        self._waiting.append(work)
        self._arrived.set()
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._arrived.wait()
            # The call that this work comes from is answered first.
            await asyncio.sleep(0)
            time_slice = TimeSlice()
            while self._waiting:
                try:
                    next(self._waiting[0])
                except StopIteration:
                    self._waiting.popleft()
                except Exception:  # noqa: BLE001 - whatever it is, it is told of with its trace
                    # One text must not end all others, and with them the process.
                    self._waiting.popleft()
                    _log.exception("something is not told, by a fault of gpuloom: please report it")
                await time_slice.yield_if_over()
            self._arrived.clear()


class ImmediateWork(DeferredWork):
    """Does all work when it comes: for recordings, where what was said belongs to the answer."""

    def add(self, work: Iterator[None]) -> bool:
        """Do a piece of work."""
        for _ in work:
            pass
        return True
