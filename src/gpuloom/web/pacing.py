"""Long work in small slices: the event loop belongs to kube-scheduler's calls, which are answered in between."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import TypeVar

SLICE_S = 0.0005
"""So long a call of kube-scheduler may have to wait for people's questions, however many people ask."""
REST_S = 0.001
MOST_RESTS = 8
"""After so many rests people get a slice although calls are being answered."""

_T = TypeVar("_T")


def _never() -> bool:
    return False


class Pace:
    """Lets one slice of work be done at a time, and rests after each: most of the loop's time is never taken.

    ``is_busy`` says whether calls are being answered: they go first.
    """

    def __init__(self, is_busy: Callable[[], bool] = _never) -> None:
        self._turn = asyncio.Lock()
        self._is_busy = is_busy

    async def collect(self, items: Iterable[_T], limit: int | None = None) -> list[_T]:
        """Take items, at most ``limit``."""
        return await self.finish(gather(items, limit))

    async def finish(self, steps: Generator[None, None, _T]) -> _T:
        """Take all steps and return their result."""
        while True:
            async with self._turn:
                await self._rest()
                ends = time.perf_counter() + SLICE_S
                try:
                    next(steps)
                    while time.perf_counter() < ends:
                        next(steps)
                except StopIteration as end:
                    result: _T = end.value
                    return result

    async def _rest(self) -> None:
        """Let others go first."""
        await asyncio.sleep(REST_S)
        for _ in range(MOST_RESTS - 1):
            if not self._is_busy():
                return
            await asyncio.sleep(REST_S)


def gather(items: Iterable[_T], limit: int | None = None) -> Generator[None, None, list[_T]]:
    """Return the items, at most ``limit``; each is a step."""
    found: list[_T] = []
    for item in islice(items, limit):
        found.append(item)
        yield
    return found


def sift(items: Iterable[_T], is_wanted: Callable[[_T], bool]) -> Generator[None, None, list[_T]]:
    """Return the items that are wanted; looking at each is a step."""
    found: list[_T] = []
    for item in items:
        yield
        if is_wanted(item):
            found.append(item)
    return found
