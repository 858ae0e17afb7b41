"""How fast calls may follow each other: a token bucket, as every Kubernetes client has one (binding 7)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Most calls a second, and most at once; a ``qps`` of 0 is no limit, a ``burst`` of 0 is as many as ``qps``."""

    qps: float = 0.0
    burst: int = 0

    @property
    def size(self) -> int:
        """How many calls may come at once."""
        return self.burst or max(1, math.ceil(self.qps))


class RateLimiter:
    """One budget of calls. Whoever comes when it is used up waits for its turn, in order."""

    def __init__(
        self,
        limit: RateLimit,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._sleep = sleep
        self._monotonic_s = monotonic_s
        self._tokens = float(limit.size)
        self._filled_s = monotonic_s()

    def renew(self) -> "RateLimiter":
        """Make another budget of the same kind."""
        return RateLimiter(self.limit, sleep=self._sleep, monotonic_s=self._monotonic_s)

    async def keep(self) -> None:
        """Wait until one more call may be made."""
        if self.limit.qps <= 0:
            return
        now = self._monotonic_s()
        self._tokens = min(self._tokens + (now - self._filled_s) * self.limit.qps, self.limit.size)
        self._filled_s = now
        # Taken before waiting, also below zero: those who come later wait longer.
        self._tokens -= 1
        if self._tokens < 0:
            try:
                await self._sleep(-self._tokens / self.limit.qps)
            except asyncio.CancelledError:
                # No call follows: whoever goes away before his turn must not make others wait for it.
                self._tokens += 1
                raise
