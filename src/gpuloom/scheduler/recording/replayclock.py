"""The time in a replay: it stands still between two lines, and waiting costs none.

A Bind that waits for a lock is not to wait: its sleeps end at once and count on the monotonic clock only, so that it
comes to the answer that it would have got with nothing happening meanwhile.
"""

import asyncio
from datetime import UTC, datetime, tzinfo

from gpuloom.scheduler.clocks import Clocks

_START = datetime(1970, 1, 1, tzinfo=UTC)


class ReplayClock:
    """The clock that lines set."""

    def __init__(self) -> None:
        self.zone: tzinfo = UTC
        self._now = _START
        self._monotonic_s = 0.0
        # How far waiting has run ahead; the time of later lines catches up first.
        self._ahead_s = 0.0

    @property
    def clocks(self) -> Clocks:
        """The clock as the flows want it."""
        return Clocks(monotonic=self.monotonic, now=self.now, sleep=self.sleep)

    def set(self, now: datetime) -> None:
        """Go to a time; back also, but only on the wall."""
        passed_s = max((now - self._now).total_seconds(), 0.0)
        self._now = now
        caught_up_s = min(passed_s, self._ahead_s)
        self._ahead_s -= caught_up_s
        self._monotonic_s += passed_s - caught_up_s

    def now(self) -> datetime:
        """Return the wall's time in the recording's zone."""
        return self._now.astimezone(self.zone)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._monotonic_s

    async def sleep(self, seconds: float) -> None:
        """Let others run, and count the time as waited."""
        self._monotonic_s += seconds
        self._ahead_s += seconds
        await asyncio.sleep(0)
