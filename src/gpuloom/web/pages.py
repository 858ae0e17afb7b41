"""Long work in small slices: the event loop belongs to kube-scheduler's calls, which are answered in between."""

import asyncio
import time
from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

SLICE_S = 0.0005
"""So long a call of kube-scheduler may have to wait for people's questions, however many people ask."""
REST_S = 0.001

_T = TypeVar("_T")


class Pace:
    """Lets one slice of work be done at a time, and rests after each: most of the loop's time is never taken."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def collect(self, items: Iterable[_T], limit: int | None = None) -> list[_T]:
        """Take items, at most ``limit``."""
        return await self.finish(_gather(items, limit))

    async def finish(self, steps: Generator[None, None, _T]) -> _T:
        """Take all steps and return their result."""
        while True:
            async with self._turn:
                ends = time.perf_counter() + SLICE_S
                try:
                    while time.perf_counter() < ends:
                        next(steps)
                except StopIteration as end:
                    result: _T = end.value
                    return result
                await asyncio.sleep(REST_S)

    async def rest(self) -> None:
        """Let others go first."""
        await asyncio.sleep(REST_S)


def _gather(items: Iterable[_T], limit: int | None) -> Generator[None, None, list[_T]]:
    found: list[_T] = []
    for item in islice(items, limit):
        found.append(item)
        yield
    return found
