"""The two clocks of the process, passed in so that tests can set the time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


def _local_now() -> datetime:
    return datetime.now(UTC).astimezone()


@dataclass(frozen=True, slots=True)
class Clocks:
    """``monotonic`` seconds for durations, ``now`` in local time for what is written, ``sleep`` to wait."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _local_now
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    @property
    def unix(self) -> int:
        """Seconds since 1970, as annotations carry them."""
        return int(self.now().timestamp())

    async def every(self, period_s: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """Act again and again until cancelled, each time after a pause."""
        while True:
            await self.sleep(period_s)
            if (acting := act()) is not None:
                await acting

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Wait until the event is set, or until the time is over."""
        waits = (asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.sleep(timeout_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def set_within(self, event: asyncio.Event, timeout_s: float) -> None:
        """Wait until an event that nobody else waits for is set, and set it when the time is over.

        Who waits goes on in the very next turn of the loop.
        """
        timer = asyncio.create_task(self._set_later(event, timeout_s))
        try:
            await event.wait()
        finally:
            timer.cancel()

    async def _set_later(self, event: asyncio.Event, delay_s: float) -> None:
        await self.sleep(delay_s)
        event.set()
