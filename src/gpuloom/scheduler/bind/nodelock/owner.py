"""When the owner of a node lock is over, so that the lock may be taken from it (binding 3). Pure.

The lock's time, the pod's creation and its ``bind-time`` were written by different machines. Such times are compared
with a margin, and none of them says anything about an owner that is bound here and in phase ``allocating``: its
Allocate may be under way as long as the pod exists (trust T-08).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import BIND_PHASE, BIND_TIME, PHASE_ALLOCATING, PHASE_FAILED, PHASE_SUCCESS
from gpuloom.wire.lock import NodeLock
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import has_shares
from gpuloom.wire.words import decode_time, decode_unix_time

UNBOUND_OWNER_LIMIT = timedelta(seconds=35)
"""Longer than any Bind lasts: after this an owner that is not bound has none."""

CLOCK_MARGIN = timedelta(seconds=60)
"""By so much the clocks of two machines may differ."""


@dataclass(frozen=True, slots=True)
class LocalKnowledge:
    """What this process knows about the owner beside the objects.

    binds_it      a Bind of the owner runs here
    would_know    this process has been in charge for so long that every living Bind is its own
    """

    binds_it: bool = False
    would_know: bool = False


def is_over(
    lock: NodeLock, owner: Pod | None, node: str, now: datetime, knowledge: LocalKnowledge, lists: Iterable[str]
) -> bool:
    """Tell whether the pod that a lock names will never release it.

    owner  None when there is no such pod
    lists  the annotations from which device plugins that share this lock take what is left to allocate
    """
    if owner is None or owner.is_over:
        return True
    if not owner.spec.node_name:
        is_late = is_older(lock, UNBOUND_OWNER_LIMIT, now) or _is_namesake(lock, owner)
        return not knowledge.binds_it and (knowledge.would_know or is_late)
    if owner.spec.node_name != node:
        return True
    return not is_allocating(owner, node) and (_is_namesake(lock, owner) or _is_served(lock, owner, lists))


def is_allocating(owner: Pod, node: str) -> bool:
    """Tell whether a pod waits for a device plugin of this node, or is being served by it."""
    at_work = owner.annotations.get(BIND_PHASE) == PHASE_ALLOCATING
    return owner.spec.node_name == node and not owner.is_over and at_work


def is_older(lock: NodeLock, limit: timedelta, now: datetime) -> bool:
    """Tell whether a lock that another machine may have set is certainly older than a limit.

    The limit is at least the longest time of a Bind plus the margin for clocks, however small `limit` is.
    """
    return now - lock.time > max(limit, UNBOUND_OWNER_LIMIT + CLOCK_MARGIN)


def _is_namesake(lock: NodeLock, owner: Pod) -> bool:
    """A pod created after the lock's time is another one of the same name."""
    try:
        return decode_time(owner.metadata.creation_timestamp or "") - lock.time > CLOCK_MARGIN
    except WireError:
        return False


def _is_served(lock: NodeLock, owner: Pod, lists: Iterable[str]) -> bool:
    """Tell whether the device plugins of all vendors are done with the pod and did not release its lock.

    A bound pod gets no second lock: a ``bind-time`` long before the lock's time means a pod that was read too early.
    """
    if owner.annotations.get(BIND_PHASE) not in {PHASE_SUCCESS, PHASE_FAILED}:
        return False
    bound_at = decode_unix_time(owner.annotations.get(BIND_TIME, ""))
    # To reckon with times themselves leaves the calendar, where a lock is of its first or last day.
    if bound_at is None or bound_at < int(lock.time.timestamp() - CLOCK_MARGIN.total_seconds()):
        return False
    try:
        return not any(has_shares(owner.annotations.get(key, "")) for key in lists)
    except WireError:
        return False
