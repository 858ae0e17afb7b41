"""Pods that a Filter refused and for which room may be made, until somebody looks at them.

Where not all nodes with cards were offered, an attempt waits a moment: others may be right after. It ends when another
Filter gives the pod a node, not when one refuses it again: kube-scheduler may try it every few milliseconds
(decision 039).
"""

import asyncio
from collections.abc import Iterator
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

    def asks_as(self, other: "PreemptionAttempt") -> bool:
        """Whether the same is asked for, and no more nodes are offered: a plan for the other is one for this."""
        is_same = self.priority == other.priority and self.demands == other.demands
        return is_same and len(self.names) <= len(other.names)

    def after(self, before: "PreemptionAttempt | None") -> "PreemptionAttempt":
        """Return this one in the place of another that waits: it is due no later than that.

        What failed a moment ago is not tried sooner because the pod was filtered again.
        """
        if before is None:
            return self
        names = before.names if len(before.names) > len(self.names) and not before.retries else self.names
        due = before.due if before.retries else min(before.due, self.due)
        return msgspec.structs.replace(self, names=names, refused_at=before.refused_at, due=due, retries=before.retries)


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

    def __len__(self) -> int:
        return len(self._waiting)

    def note_refused(
        self, pod: Pod, demands: Demands, names: NodeNames, now: float, *, is_certain: bool = False
    ) -> None:
        """Take that a pod was refused, unless nobody may be evicted for it or room is being made already.

        ``is_certain``: every node with cards has refused it, so there is nothing to wait for.
        For one of a group nobody is: whether the others find room too is not known, and a victim may leave in vain.
        """
        uid, nomination = pod.metadata.uid, self.nominations.find(pod.metadata.uid)
        is_nominated = nomination is not None and nomination.is_asked
        if not (self.is_on and pod.may_preempt and not pod.own_group) or is_nominated:
            self.drop(uid)
            return
        attempt = PreemptionAttempt(uid, pod.priority, demands, names, now, now if is_certain else now + WAIT_S)
        underway = self._underway.get(uid)
        if underway is not None and attempt.asks_as(underway):
            return
        self._underway.pop(uid, None)
        self._put(attempt.after(self._waiting.get(uid)))

    def put_back(self, attempt: PreemptionAttempt, due: float) -> None:
        """Try again later, unless the pod was filtered meanwhile."""
        if attempt.uid not in self._waiting:
            self._put(msgspec.structs.replace(attempt, due=due, retries=attempt.retries + 1))

    def drop(self, uid: str) -> None:
        """Take that nobody is to be evicted for a pod now: what is waiting or underway for it is out of date."""
        self._waiting.pop(uid, None)
        self._underway.pop(uid, None)

    def clear(self) -> None:
        """Take that nobody is to be evicted before pods are refused anew."""
        self._waiting.clear()
        self._underway.clear()

    def take_due(self, now: float, least_priority: float) -> PreemptionAttempt | None:
        """Return the most important attempt of at least a priority whose time has come, and note that it began."""
        due = [one for one in self._of(least_priority) if one.due <= now]
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

    def next_due(self, least_priority: float) -> float | None:
        """Return when the next attempt of at least a priority is to be looked at, None without one."""
        return min((one.due for one in self._of(least_priority)), default=None)

    def _of(self, least_priority: float) -> Iterator[PreemptionAttempt]:
        return (one for one in self._waiting.values() if one.priority >= least_priority)

    def _put(self, attempt: PreemptionAttempt) -> None:
        self._waiting[attempt.uid] = attempt
        if len(self._waiting) > MOST_ATTEMPTS:
            self.ignored += 1
            # Of equal ones, the last.
            del self._waiting[max(reversed(self._waiting.values()), key=_order).uid]
        self.changed.set()


def _order(attempt: PreemptionAttempt) -> tuple[int, float]:
    return -attempt.priority, attempt.refused_at
