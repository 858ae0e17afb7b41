"""Whether a lock that is in the way has been abandoned (binding 3): asks for its owner, and how often."""

from dataclasses import dataclass
from datetime import timedelta

import structlog

from gpuloom.kube import PODS, WRITE_DEADLINE_S, KubeClient, NotFoundError
from gpuloom.scheduler.bind.nodelock.owner import UNBOUND_OWNER_LIMIT, LocalKnowledge, is_allocating, is_older, is_over
from gpuloom.scheduler.bind.nodelock.queue import BlockingLock, LockQueue
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import NodeLock, decode_lock
from gpuloom.wire.objects import Pod

OWNER_CHECK_S = 2.0
"""How long a lock's owner must look over before the lock is taken, and how often it is asked for."""

_log = structlog.get_logger(__name__)


def _read(blocking: BlockingLock) -> NodeLock | None:
    """Return what a lock says, None where that cannot be read."""
    try:
        return decode_lock(blocking.value)
    except WireError:
        return None


@dataclass(frozen=True, slots=True)
class LockOwnerCheck:
    """Finds out whether locks are abandoned. Both questions raise ApiError when the API server does not answer."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks

    async def is_abandoned(self, queue: LockQueue, node: str) -> bool:
        """Whether a waiter may take the lock: its owner has been over for a while, or it has expired.

        A lock does not expire while the pod that it names is bound here and its plugin is not done with it.
        """
        blocking = self._note_blocking(queue)
        limit = timedelta(seconds=queue.rules.expires_s or self.state.settings.node_lock_timeout_s)
        lock = _read(blocking)
        if lock is None:
            blocking.checked = self.clocks.monotonic()
            return self._has_been_seen_for(blocking, limit)
        if self._is_older(blocking, lock, limit):
            return await self._may_expire(blocking, lock, queue, node)
        return await self._has_been_over(blocking, lock, queue, node)

    def is_due(self, queue: LockQueue) -> bool:
        """Whether the owner of a lock that nobody waits for is to be looked at: no Bind can be so old as the lock."""
        blocking = self._note_blocking(queue)
        lock = _read(blocking)
        return lock is not None and self._is_older(blocking, lock, UNBOUND_OWNER_LIMIT) and self._may_check(blocking)

    async def is_owner_over(self, queue: LockQueue, node: str) -> bool:
        """Whether a lock that is due may be removed here, because its owner is over."""
        blocking = self._note_blocking(queue)
        lock = _read(blocking)
        if lock is None or not self._is_older(blocking, lock, UNBOUND_OWNER_LIMIT):
            return False
        # While the API server was asked, another process may have taken over.
        return await self._has_been_over(blocking, lock, queue, node) and self.state.charge.is_ours

    def _note_blocking(self, queue: LockQueue) -> BlockingLock:
        """Return what is known of the lock that is in the way, begun anew where it is another one than before."""
        now = self.clocks.monotonic()
        if queue.blocking is None or queue.blocking.value != queue.value:
            # The owner of a lock that was set here was alive a moment ago; about other owners we ask at once.
            checked = now if queue.owner_uid else float("-inf")
            queue.blocking = BlockingLock(queue.value, first_seen=now, checked=checked)
            try:
                decode_lock(queue.value)
            except WireError as error:
                name = queue.node.name if queue.node else ""
                _log.error("node lock cannot be read, it will expire", node=name, cause=str(error))
        return queue.blocking

    def _has_been_seen_for(self, blocking: BlockingLock, limit: timedelta) -> bool:
        return self.clocks.monotonic() - blocking.first_seen > limit.total_seconds()

    def _is_older(self, blocking: BlockingLock, lock: NodeLock, limit: timedelta) -> bool:
        """Whether a lock is older than a limit: it was seen here for so long, or its own time is certainly so old."""
        return self._has_been_seen_for(blocking, limit) or is_older(lock, limit, self.clocks.now())

    def _may_check(self, blocking: BlockingLock) -> bool:
        """Whether a lock is to be looked at now: it was not a moment ago."""
        return self.clocks.monotonic() - blocking.checked >= OWNER_CHECK_S

    def _begin_check(self, blocking: BlockingLock) -> bool:
        if not self._may_check(blocking):
            return False
        blocking.checked = self.clocks.monotonic()
        return True

    async def _may_expire(self, blocking: BlockingLock, lock: NodeLock, queue: LockQueue, node: str) -> bool:
        if not (lock.name and lock.namespace):
            return True
        if not self._begin_check(blocking):
            return False
        if not (self._is_alive(queue, node) or await self._is_allocating(lock, node)):
            return True
        if not blocking.is_logged:
            blocking.is_logged = True
            _log.warning(
                "node lock kept beyond its time, its pod waits for the device plugin", node=node, value=queue.value
            )
        return False

    async def _is_allocating(self, lock: NodeLock, node: str) -> bool:
        owner = await self._find_owner(lock)
        return owner is not None and is_allocating(owner, node)

    async def _has_been_over(self, blocking: BlockingLock, lock: NodeLock, queue: LockQueue, node: str) -> bool:
        now = self.clocks.monotonic()
        if not self._begin_check(blocking):
            return False
        if not (lock.name and lock.namespace):
            # It names no pod that could be asked about, so it expires.
            return False
        if queue.owner_uid and not self._looks_over(blocking, queue, node):
            return False
        owner = await self._find_owner(lock)
        lists = self.state.settings.catalog.lists_under(queue.rules.key)
        if not is_over(lock, owner, node, self.clocks.now(), self._local_knowledge(lock, queue), lists):
            blocking.over_since = None
            return False
        if blocking.over_since is None:
            blocking.over_since = now
        return now - blocking.over_since >= OWNER_CHECK_S

    def _looks_over(self, blocking: BlockingLock, queue: LockQueue, node: str) -> bool:
        """Whether the owner of a lock that was set here has seemed to be over since the last check, by local knowledge.

        Local knowledge starts the waiting time; at its end the API server's answer decides.
        """
        if self._is_alive(queue, node):
            blocking.over_since = None
            return False
        if blocking.over_since is None:
            blocking.over_since = self.clocks.monotonic()
            return False
        return True

    def _is_alive(self, queue: LockQueue, node: str) -> bool:
        """Whether a lock is known to be in use, so that nobody needs to be asked: in a Bind here, or in an Allocate."""
        uid = queue.owner_uid
        if queue.holder is not None and queue.holder.uid == uid:
            return True
        held = self.state.cluster.ledger.find(uid)
        return uid in self.state.binds.allocating and held is not None and held.node == node

    def _local_knowledge(self, lock: NodeLock, queue: LockQueue) -> LocalKnowledge:
        holder, since = queue.holder, self.state.charge.since
        return LocalKnowledge(
            binds_it=holder is not None and lock.is_held_by(holder.namespace, holder.name),
            would_know=since is not None and self.clocks.monotonic() - since > UNBOUND_OWNER_LIMIT.total_seconds(),
        )

    async def _find_owner(self, lock: NodeLock) -> Pod | None:
        try:
            return await self.client.get(PODS, lock.name, namespace=lock.namespace, timeout_s=WRITE_DEADLINE_S)
        except NotFoundError:
            return None
