"""Pods that fit nowhere and wait for capacity, and that there is some."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.placement.placement_cache import DemandClass, demand_class_of
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.interner import Interner
from gpuloom.scheduler.groups.attempts import GroupKey, group_of
from gpuloom.scheduler.pods.partlyoffered import PartlyOffered
from gpuloom.wire.objects import Pod

MOST_LIKENESSES = 2048
"""So many kinds of waiting pods are told apart; beyond them alike ones may have two numbers, which costs time only."""
MOST_TOLD = 4096

WaitingKind = tuple[int, int, GroupKey | None]
"""Pods of one kind fit when one of them does: likeness, priority, and the group whose members must fit together."""


class UnschedulablePod(msgspec.Struct, frozen=True, gc=False):
    """A pod that fits nowhere, and when it first did not (monotonic seconds).

    demands   what it asked for then
    likeness  a number that it has in common with others that fit when it does
    """

    pod: Pod
    demands: Demands
    likeness: int
    since: float

    @property
    def kind(self) -> WaitingKind:
        """What the pod has in common with others that wait and fit when it does."""
        return self.likeness, self.pod.priority, group_of(self.pod)


@dataclass(slots=True)
class ToldRefusal:
    """When an event said why a pod fits nowhere (monotonic seconds), and what is to be said next."""

    at: float
    later: tuple[Pod, Sequence[str]] | None = None


@dataclass(slots=True)
class WaitingPods:
    """Those that fit nowhere, and all that is remembered of them until they wait no more.

    unschedulable  by UID, oldest first, those woken in vain last
    woken_since  by UID of pods that were put back into the queue: when they first fitted nowhere (monotonic seconds)
    partly_offered  those that were refused though not all nodes were offered
    told  by UID what events have said of them, of the newest
    capacity_freed  set when capacity came back; whoever requeues those that wait clears it
    """

    unschedulable: dict[str, UnschedulablePod] = field(default_factory=dict)
    woken_since: dict[str, float] = field(default_factory=dict)
    partly_offered: PartlyOffered = field(default_factory=PartlyOffered)
    told: FifoDict[str, ToldRefusal] = field(default_factory=lambda: FifoDict(MOST_TOLD))
    capacity_freed: asyncio.Event = field(default_factory=asyncio.Event)
    _likenesses: Interner[DemandClass] = field(default_factory=lambda: Interner(MOST_LIKENESSES))

    def note_refused(self, pod: Pod, demands: Demands, now: float) -> None:
        """Take that a pod fits nowhere; one that waits keeps its turn, and the time when it first fitted nowhere."""
        uid = pod.metadata.uid
        known = self.unschedulable.get(uid)
        since = known.since if known else self.woken_since.pop(uid, now)
        likeness = self._likenesses.number(demand_class_of(demands))
        self.unschedulable[uid] = UnschedulablePod(pod, demands, likeness, since)

    def note_woken(self, waiting: UnschedulablePod) -> None:
        """Take that a pod is put back into the queue; it waits again when it is refused again."""
        uid = waiting.pod.metadata.uid
        self.unschedulable.pop(uid, None)
        self.woken_since[uid] = waiting.since

    def note_not_woken(self, waiting: UnschedulablePod) -> None:
        """Take that a pod could not be put back into the queue: it waits as before, unless it was tried meanwhile."""
        uid = waiting.pod.metadata.uid
        if self.woken_since.pop(uid, None) is not None:
            self.unschedulable[uid] = waiting

    def drop(self, uid: str) -> None:
        """Take that a pod does not wait any more."""
        self.unschedulable.pop(uid, None)
        self.woken_since.pop(uid, None)
        self.partly_offered.drop(uid)
        self.told.pop(uid, None)

    def clear(self) -> None:
        """Take that none is known to wait."""
        self.unschedulable.clear()
        self.woken_since.clear()
        self.partly_offered.clear()
        self.told.clear()
