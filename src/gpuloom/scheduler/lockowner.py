"""When the owner of a node lock is over, so that the lock may be taken from it (binding 3). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import BIND_PHASE, BIND_TIME, PHASE_FAILED, PHASE_SUCCESS
from gpuloom.wire.lock import NodeLock
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import has_shares
from gpuloom.wire.words import decode_time, decode_unix_time

UNBOUND_OWNER_LIMIT = timedelta(seconds=35)
"""Longer than any Bind lasts: after this an owner that is not bound has none."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What this process knows beside the objects.

    binds_it      a Bind of the owner runs here
    would_know    this process has been in charge for so long that every living Bind is its own
    """

    binds_it: bool = False
    would_know: bool = False


def is_over(
    lock: NodeLock, owner: Pod | None, node: str, now: datetime, witness: Witness, lists: Iterable[str]
) -> bool:
    """Tell whether the pod that a lock names will never release it.

    owner  None when there is no such pod
    lists  the annotations from which device plugins that share this lock take what is left to allocate

    An owner that is bound here and in phase ``allocating`` is not over: its Allocate may be under way.
    """
    if owner is None or owner.is_over or _is_namesake(lock, owner):
        return True
    if not owner.spec.node_name:
        return not witness.binds_it and (witness.would_know or now - lock.time > UNBOUND_OWNER_LIMIT)
    return owner.spec.node_name != node or _is_served(lock, owner, lists)


def _is_namesake(lock: NodeLock, owner: Pod) -> bool:
    """A pod created after the lock's time is another one of the same name."""
    try:
        # Locks carry whole seconds, so a lock set in the second of the creation must not look older.
        return decode_time(owner.metadata.creation_timestamp or "") > lock.time
    except WireError:
        return False


def _is_served(lock: NodeLock, owner: Pod, lists: Iterable[str]) -> bool:
    """The device plugins of all vendors are done with it and did not release the lock."""
    if owner.annotations.get(BIND_PHASE) not in {PHASE_SUCCESS, PHASE_FAILED}:
        return False
    bound_at = decode_unix_time(owner.annotations.get(BIND_TIME, ""))
    if bound_at is None or bound_at < int(lock.time.timestamp()):
        return False
    try:
        return not any(has_shares(owner.annotations.get(key, "")) for key in lists)
    except WireError:
        return False
