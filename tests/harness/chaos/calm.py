"""When nothing was disturbed for so long that nothing may be late any more."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

BACKOFF_S = 10.0
"""kube-scheduler's longest unless it is told another: so long it leaves a pod alone whose binding has failed."""


class Calm:
    """Knows which disturbances are going on.

    One lasts until what was disturbed works again, and what kept nodes busy at that moment (locks, pods that are bound
    and not served) is over; after the last one it is calm when kube-scheduler's longest backoff is over too.

    Attributes: `calm_s` (how long it was calm, of all), `longest_s` (of the disturbances, by what they were).
    """

    def __init__(self, locks: Callable[[], Mapping[str, str]], clock: Callable[[], float]):
        """Prepare; `locks` tells what keeps nodes busy, by node, `clock` monotonic seconds."""
        self.calm_s = 0.0
        self.longest_s: dict[str, float] = {}
        self._locks = locks
        self._clock = clock
        self._open = 0
        self._left: set[tuple[str, str]] = set()
        self._checked_s = self._disturbed_s = self._clock()

    @property
    def since_s(self) -> float | None:
        """Since when it has been calm, by the clock; None while it is not."""
        begin_s = self._disturbed_s + BACKOFF_S
        return begin_s if not self._is_disturbed and self._clock() >= begin_s else None

    @asynccontextmanager
    async def disturbed(self, what: str) -> AsyncIterator[None]:
        """Take everything inside for disturbed: the deed, and the time until it is made good."""
        began_s = self._clock()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._disturbed_s = self._clock()
            self._left |= self._locks().items()
            self.longest_s[what] = max(self.longest_s.get(what, 0.0), self._disturbed_s - began_s)

    def check(self) -> None:
        """Look at the clock and the locks; to be called often."""
        now_s = self._clock()
        self._left &= self._locks().items()
        if self._is_disturbed:
            self._disturbed_s = now_s
        elif self.since_s is not None:
            self.calm_s += now_s - self._checked_s
        self._checked_s = now_s

    @property
    def _is_disturbed(self) -> bool:
        return bool(self._open or self._left)
