"""Pods that were refused though not all nodes were offered, and where they were pointed to (binding 4)."""

import asyncio
from dataclasses import dataclass, field

from gpuloom.engine.bounded import FifoDict
from gpuloom.wire.nodenames import NodeNames

WAIT_S = 0.1
"""kube-scheduler takes hints away while it notes that a pod was refused, and may offer other nodes right after."""
FIRST_PAUSE_S = 1.0
"""Also how long a node is left to the pod that was pointed there, while others have room."""
LONGEST_PAUSE_S = 60.0
"""What nobody here can judge (a volume, an affinity to pods) may keep a pod off every node that it is pointed to."""
MOST_TIMES = 10
"""After so many the pause is the longest."""
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Pointed:
    """Where a pod was pointed to and when (monotonic seconds), and how often it was in vain."""

    node: str
    at: float
    times: int

    @property
    def until(self) -> float:
        """Before when it is not pointed anywhere again."""
        return self.at + min(FIRST_PAUSE_S * 2.0 ** (self.times - 1), LONGEST_PAUSE_S)


@dataclass(slots=True)
class PartlyOffered:
    """Pods that were refused though not all nodes were offered, until somebody looks at them. Bounded.

    changed  set when there is a new one; whoever looks clears it
    """

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _due: FifoDict[str, float] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))
    _pointed: FifoDict[str, _Pointed] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))

    def __len__(self) -> int:
        return len(self._due)

    def note_refused(self, uid: str, names: NodeNames, now: float) -> None:
        """Take that a pod was refused by some of the nodes.

        Where one of them is the node that it was pointed to, another pod was faster: the next pause is as the first.
        """
        pointed = self._pointed.get(uid)
        if pointed and names.has(pointed.node):
            pointed = self._pointed[uid] = _Pointed(pointed.node, pointed.at, times=1)
        self._due[uid] = max(now + WAIT_S, pointed.until if pointed else now)
        self.changed.set()

    def drop(self, uid: str) -> None:
        """Take that a pod does not wait any more."""
        self._due.pop(uid, None)
        self._pointed.pop(uid, None)

    def clear(self) -> None:
        """Take that none is known to wait."""
        self._due.clear()
        self._pointed.clear()

    def take_due(self, now: float) -> list[str]:
        """Return those that may be pointed to a node now, oldest refusal first."""
        due = [uid for uid, when in self._due.items() if when <= now]
        for uid in due:
            del self._due[uid]
        return due

    def note_pointed(self, uid: str, node: str, now: float) -> None:
        """Take that a pod was pointed to a node: after each time in vain a longer pause."""
        before = self._pointed.get(uid)
        self._pointed[uid] = _Pointed(node, now, min(before.times + 1, MOST_TIMES) if before else 1)

    def find_promised(self, now: float) -> set[str]:
        """Return the nodes that other pods were pointed to a moment ago."""
        return {one.node for one in self._pointed.values() if now < one.at + FIRST_PAUSE_S}
