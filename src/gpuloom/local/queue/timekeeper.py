"""How the queue waits, so that tests can let hours pass at once."""

import asyncio
import contextlib
import time
from typing import Protocol


class Timekeeper(Protocol):
    """A monotonic clock that can wait."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        """Return when the event is set, or after the time; earlier is allowed."""
        ...


class RealTime:
    """The machine's clock."""

    def now(self) -> float:
        """See :class:`Timekeeper`."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        """See :class:`Timekeeper`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
