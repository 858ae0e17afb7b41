"""Long work on the event loop, cut into time slices: between two of them calls are answered."""

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

from gpuloom.engine.steps import Steps

_T = TypeVar("_T")

SLICE_S = 0.0005
"""So long calls may have to wait for work that is not theirs."""
SHORT_S = 0.0002
"""The same for work that goes on as long as pods wait: many of their calls would come upon it."""
TURNS = 3
"""So many turns of the loop a call takes from its first byte to its answer: one that comes during a slice is answered
before the next."""


class TimeSlice:
    """Says when it is time to let others run, each time after so many seconds, those of a slice if none are said."""

    def __init__(self, length_s: float | None = None) -> None:
        self._length_s = SLICE_S if length_s is None else length_s
        self._until_s = time.perf_counter() + self._length_s

    @property
    def is_over(self) -> bool:
        """Whether others have waited long enough."""
        return time.perf_counter() >= self._until_s

    async def yield_if_over(self) -> None:
        """Let others run if the slice is over, and begin the next one."""
        if self.is_over:
            await self.pause()

    async def pause(self) -> None:
        """Let others run, and begin the next slice: before a step that takes about as long as a slice."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._until_s = time.perf_counter() + self._length_s

    async def finish(self, steps: Generator[object, None, _T]) -> _T:
        """Take all steps, letting others run between them, and return their result."""
        taken = Steps(steps)
        for _ in taken:
            await self.yield_if_over()
        return taken.result
