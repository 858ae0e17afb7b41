"""How long to wait before the next try. Only counts and calculates; the caller waits."""

import random
from collections.abc import Callable


class Backoff:
    """Delays drawn between ``floor_s`` and a ceiling that doubles with every failure up to ``ceiling_s``."""

    def __init__(
        self,
        *,
        floor_s: float = 0.8,
        ceiling_s: float = 30.0,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._floor_s = floor_s
        self._ceiling_s = ceiling_s
        self._uniform = uniform
        self._reach_s = floor_s

    def delay_s(self) -> float:
        """Count one more failure and return the delay before the next try."""
        self._reach_s = min(self._reach_s * 2, self._ceiling_s)
        return self._uniform(self._floor_s, self._reach_s)

    def reset(self) -> None:
        """Forget the failures, after a try that worked."""
        self._reach_s = self._floor_s
