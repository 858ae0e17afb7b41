"""Which pod is tried next, and when a refused one is tried again: pure state, the time comes in as an argument.

A pod is active, in flight, unschedulable (waits for a cluster event) or in backoff (waits for its time):

    active -> in flight -> bound and dropped
                        -> unschedulable -> backoff -> active
                        -> backoff -> active
"""

import heapq
import itertools
from dataclasses import dataclass
from enum import Enum, auto

from gpuloom.local.queue.pods import QueuedPod, changes_its_chances

REFUSED_LIMIT_S = 300.0
"""After this long a refused pod is tried again without an event, as in kube-scheduler."""


class SubQueue(Enum):
    """Where a pod stands, by kube-scheduler's words: activeQ, pods in flight, unschedulablePods, backoffQ."""

    ACTIVE = auto()
    IN_FLIGHT = auto()
    UNSCHEDULABLE = auto()
    BACKOFF = auto()


@dataclass(slots=True)
class _Entry:
    pod: QueuedPod
    sub_queue: SubQueue = SubQueue.ACTIVE
    attempts: int = 0
    tried_at: float = 0.0
    due: float = 0.0
    events_seen: int = 0


class Backlog:
    """Pods that wait for a node, by UID. Times are seconds of one monotonic clock."""

    def __init__(self, *, backoff_initial_s: float, backoff_max_s: float) -> None:
        self._backoff_initial_s = backoff_initial_s
        self._backoff_max_s = backoff_max_s
        self._entries: dict[str, _Entry] = {}
        self._active: list[tuple[int, int, str]] = []
        self._timers: list[tuple[float, str]] = []
        self._order = itertools.count()
        self._events = 0

    def put(self, pod: QueuedPod, now: float) -> None:
        """Add a pod, or take note of its new state; a change that matters gives a refused pod another try."""
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            self._entries[uid] = entry = _Entry(pod)
            self._activate(uid, entry)
            return
        changed = changes_its_chances(entry.pod, pod)
        entry.pod = pod
        if not changed:
            return
        if entry.sub_queue is SubQueue.IN_FLIGHT:
            entry.events_seen = -1
        elif entry.sub_queue is SubQueue.UNSCHEDULABLE:
            self._back_off(uid, entry, now)

    def drop(self, uid: str) -> None:
        """Forget a pod: bound, deleted or somebody else's."""
        self._entries.pop(uid, None)

    def take(self, now: float) -> QueuedPod | None:
        """Hand out the active pod of the highest priority that has been active longest; it is in flight now."""
        self._release_due(now)
        while self._active:
            _, _, uid = heapq.heappop(self._active)
            entry = self._entries.get(uid)
            if entry is not None and entry.sub_queue is SubQueue.ACTIVE:
                entry.sub_queue = SubQueue.IN_FLIGHT
                entry.attempts += 1
                entry.tried_at = now
                entry.events_seen = self._events
                return entry.pod
        return None

    def refuse(self, uid: str, now: float) -> None:
        """Put back a pod that fits nowhere: it waits for an event, or backs off if one came while it was in flight."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        if entry.events_seen != self._events:
            self._back_off(uid, entry, now)
            return
        entry.sub_queue = SubQueue.UNSCHEDULABLE
        self._set_timer(uid, entry, now + REFUSED_LIMIT_S)

    def fail(self, uid: str, now: float) -> None:
        """Put back a pod whose attempt broke: it backs off."""
        entry = self._entries.get(uid)
        if entry is not None:
            self._back_off(uid, entry, now)

    def wake(self, now: float) -> None:
        """Note a cluster event: every refused pod gets another try after its backoff."""
        self._events += 1
        for uid, entry in self._entries.items():
            if entry.sub_queue is SubQueue.UNSCHEDULABLE:
                self._back_off(uid, entry, now)

    def next_due(self) -> float | None:
        """When a pod becomes active by time alone; None if none will."""
        while self._timers and not self._is_current(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def sub_queue(self, uid: str) -> SubQueue | None:
        """Return where a pod stands; None if it is not here."""
        entry = self._entries.get(uid)
        return entry.sub_queue if entry else None

    def uids(self) -> tuple[str, ...]:
        """All pods that are here."""
        return tuple(self._entries)

    def _back_off(self, uid: str, entry: _Entry, now: float) -> None:
        # The wait counts from the last attempt: after a long refusal it is over already.
        wait_s = min(self._backoff_initial_s * 2 ** min(entry.attempts - 1, 32), self._backoff_max_s)
        if entry.tried_at + wait_s <= now:
            self._activate(uid, entry)
            return
        entry.sub_queue = SubQueue.BACKOFF
        self._set_timer(uid, entry, entry.tried_at + wait_s)

    def _activate(self, uid: str, entry: _Entry) -> None:
        entry.sub_queue = SubQueue.ACTIVE
        heapq.heappush(self._active, (-entry.pod.priority, next(self._order), uid))

    def _set_timer(self, uid: str, entry: _Entry, due: float) -> None:
        entry.due = due
        heapq.heappush(self._timers, (due, uid))

    def _release_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            due, uid = heapq.heappop(self._timers)
            if self._is_current(due, uid):
                self._activate(uid, self._entries[uid])

    def _is_current(self, due: float, uid: str) -> bool:
        entry = self._entries.get(uid)
        return entry is not None and entry.due == due and entry.sub_queue in {SubQueue.UNSCHEDULABLE, SubQueue.BACKOFF}
