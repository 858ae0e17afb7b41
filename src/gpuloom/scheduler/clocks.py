"""The two clocks of the process, brought in from outside so that tests own the time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime


def _local_now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Clocks:
    """``monotonic`` seconds for durations, ``now`` in local time for what is written, ``sleep`` to wait."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _local_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def unix(self) -> int:
        """Seconds since 1970, as annotations carry them."""
        return int(self.now().timestamp())
