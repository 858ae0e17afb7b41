"""Pods whose eviction a PodDisruptionBudget has just forbidden: for a while they are not asked again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuloom.engine.bounded import FifoDict

REMEMBERED_S = 30.0
MOST_REMEMBERED = 1024


@dataclass(slots=True)
class RefusedEvictions:
    """UIDs of such pods. ``clock`` gives monotonic seconds."""

    clock: Callable[[], float]
    _until: FifoDict[str, float] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))

    def note(self, uid: str) -> None:
        """Take that a budget forbids to evict a pod now."""
        self._until[uid] = self.clock() + REMEMBERED_S

    def __contains__(self, uid: str) -> bool:
        return self._until.get(uid, 0.0) > self.clock()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any(until > self.clock() for until in self._until.values())
