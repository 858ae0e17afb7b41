"""Long work on the event loop, cut into pages: between two of them calls are answered."""

import asyncio
import time

PAGE_S = 0.0005
"""So long calls may have to wait for work that is not theirs."""


class Page:
    """Says when it is time to let others run."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + PAGE_S

    @property
    def is_full(self) -> bool:
        """Whether others have waited long enough."""
        return time.perf_counter() >= self._until_s

    async def turn(self) -> None:
        """Let others run if the page is full, and begin the next one."""
        if self.is_full:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + PAGE_S
