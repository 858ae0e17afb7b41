"""Pods that a Filter refused and for which room may be made, until somebody looks at them.

An attempt waits a moment: kube-scheduler may offer few nodes first and others right after. Another Filter of the same
pod drops it.
"""

import asyncio
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.nominations import Nominations
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

WAIT_S = 0.1
MOST_ATTEMPTS = 256
"""Every attempt holds the names of the nodes that were offered."""


class PreemptionAttempt(msgspec.Struct, frozen=True, gc=False):
    """A refused pod.

    names       of the nodes that were offered
    refused_at  when room was looked for first, due when it is to be made (both monotonic seconds)
    retries     how often the attempt was put back
    """

    uid: str
    priority: int
    demands: Demands
    names: NodeNames
    refused_at: float
    due: float
    retries: int = 0


@dataclass(slots=True)
class PreemptionAttempts:
    """What waits to be looked at, one attempt a pod. ``is_on`` is False where no room is ever made.

    changed  set when there is something new; whoever looks clears it
    ignored  counts refused pods that were not noted because too many wait
    """

    is_on: bool
    nominations: Nominations
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ignored: int = 0
    _waiting: dict[str, PreemptionAttempt] = field(default_factory=dict)
    _underway: dict[str, PreemptionAttempt] = field(default_factory=dict)
    _held_back: dict[str, PreemptionAttempt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._waiting)

    def note_refused(self, pod: Pod, demands: Demands, names: NodeNames, now: float) -> None:
        """Take that a pod was refused, unless nobody may be evicted for it or room is being made already.

        For one of a group nobody is: whether the others find room too is not known, and a victim may leave in vain.
        """
        uid = pod.metadata.uid
        if not (self.is_on and pod.may_preempt and not pod.own_group and self.nominations.find(uid) is None):
            return
        attempt = PreemptionAttempt(uid, pod.priority, demands, names, now, now + WAIT_S)
        if (before := self._held_back.pop(uid, None)) is not None:
            # What failed a moment ago is not tried sooner because the pod was filtered again.
            attempt = msgspec.structs.replace(attempt, due=max(attempt.due, before.due), retries=before.retries)
        self._put(attempt)

    def put_back(self, attempt: PreemptionAttempt, due: float) -> None:
        """Try again later, unless the pod was filtered meanwhile."""
        if attempt.uid not in self._waiting:
            self._put(msgspec.structs.replace(attempt, due=due, retries=attempt.retries + 1))

    def drop(self, uid: str) -> None:
        """Take that a pod was filtered: what is waiting or underway for it is out of date."""
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and waiting.retries:
            self._held_back[uid] = waiting
            if len(self._held_back) > MOST_ATTEMPTS:
                del self._held_back[next(iter(self._held_back))]
        self._underway.pop(uid, None)

    def take_due(self, now: float) -> PreemptionAttempt | None:
        """Return the most important attempt whose time has come, and note that it is underway."""
        due = [one for one in self._waiting.values() if one.due <= now]
        if not due:
            return None
        first = min(due, key=_order)
        self._underway[first.uid] = self._waiting.pop(first.uid)
        return first

    def finish(self, attempt: PreemptionAttempt) -> bool:
        """Take that an attempt was looked at; False if it is out of date."""
        if self._underway.get(attempt.uid) is not attempt:
            return False
        del self._underway[attempt.uid]
        return True

    def next_due(self) -> float | None:
        """Return when the next attempt is to be looked at, None without one."""
        return min((one.due for one in self._waiting.values()), default=None)

    def _put(self, attempt: PreemptionAttempt) -> None:
        self._waiting[attempt.uid] = attempt
        if len(self._waiting) > MOST_ATTEMPTS:
            self.ignored += 1
            # Of equal ones, the last.
            del self._waiting[max(reversed(self._waiting.values()), key=_order).uid]
        self.changed.set()


def _order(attempt: PreemptionAttempt) -> tuple[int, float]:
    return -attempt.priority, attempt.refused_at
