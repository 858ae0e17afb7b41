"""Work that a reply does not wait for, such as the fate of nodes that were not needed: done after it, in pages."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator

PAGE_S = 0.002
"""So long calls may have to wait for such work."""
MOST_WAITING = 256
"""Every piece of work may hold a snapshot of the cards."""


class Afterwards:
    """Does pieces of work in the order in which they came, a page at a time."""

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
            self._work_a_page()
            if not self._waiting:
                self._arrived.clear()
            await asyncio.sleep(0)

    def _work_a_page(self) -> None:
        until_s = time.perf_counter() + PAGE_S
        while self._waiting:
            try:
                next(self._waiting[0])
            except StopIteration:
                self._waiting.popleft()
            if time.perf_counter() >= until_s:
                break


class AtOnce(Afterwards):
    """Does all work when it comes: for recordings, where what was said belongs to the answer."""

    def add(self, work: Iterator[None]) -> bool:
        """Do a piece of work."""
        for _ in work:
            pass
        return True
