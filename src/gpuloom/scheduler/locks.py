"""The node lock and its queue: one pod at a time is handed to a node's device plugin (binding 3).

The lock is an annotation on the node. Binds of one node wait here in the order in which they came; when the watch
shows that the lock is gone, the first one sets it at once. A lock whose owner is over is taken from it. The normal end
of a lock is its release by the device plugin.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from gpuloom.kube import NODES, PODS, ApiError, ConflictError, KubeClient, NotFoundError
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.durations import format_duration
from gpuloom.scheduler.lockowner import is_over
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.lock import NodeLock, decode_lock, encode_lock
from gpuloom.wire.objects import Node, Pod

WRITE_DEADLINE_S = 4.0
"""A write that takes longer has an unknown outcome (binding 2.1)."""
OWNER_CHECK_S = 2.0
"""How long a lock must look abandoned before it is taken (binding 3)."""

_log = structlog.get_logger(__name__)


class LockError(Exception):
    """The lock could not be had; the message names the node, in HAMi's words where HAMi has some."""


@dataclass(frozen=True, slots=True, eq=False)
class LockTicket:
    """One pod's place in a node's queue, and the lock it sets when its turn has come.

    is_wanted   whether the pod still needs the lock
    """

    node: str
    namespace: str
    name: str
    uid: str
    is_wanted: Callable[[], bool]


@dataclass(slots=True)
class _Suspicion:
    """What is known of a lock that is in the way; times are monotonic seconds."""

    value: str
    first_seen: float
    checked: float
    over_since: float | None = None


@dataclass(slots=True)
class _Place:
    """What is known of one node: its object, who waits, which lock is our doing, which one looks abandoned."""

    waiting: deque[LockTicket] = field(default_factory=deque)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    node: Node | None = None
    held_uid: str = ""
    held_value: str = ""
    suspicion: _Suspicion | None = None

    @property
    def value(self) -> str:
        """The lock annotation as last seen, empty without one."""
        return self.node.annotations.get(NODE_LOCK, "") if self.node else ""

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self.changed.set()
        self.changed = asyncio.Event()


class NodeLocks:
    """All node locks of the cluster, as one process sees and takes them."""

    def __init__(self, client: KubeClient, settings: SchedulerSettings, clocks: Clocks) -> None:
        self._client = client
        self._settings = settings
        self._clocks = clocks
        self._places: dict[str, _Place] = {}

    def apply_node(self, node: Node) -> None:
        """Take what the watch shows of a node; what is older than our own last write is not news."""
        place = self._places.setdefault(node.name, _Place())
        if place.node is None or _version(node) >= _version(place.node) or node.metadata.uid != place.node.metadata.uid:
            place.node = node
            place.wake()

    def delete_node(self, name: str) -> None:
        """Take that a node is gone; whoever waits for it finds out."""
        if place := self._places.pop(name, None):
            place.node = None
            place.wake()

    async def acquire(self, ticket: LockTicket) -> None:
        """Wait for our turn and set the lock.

        Raises LockError when that takes too long, is not wanted any more, or the API server refuses.
        """
        place = self._places.setdefault(ticket.node, _Place())
        deadline = self._clocks.monotonic() + self._settings.node_lock_retry_timeout_s
        place.waiting.append(ticket)
        try:
            while not (place.waiting[0] is ticket and await self._try(place, ticket)):
                await self._wait_for_news(place, ticket, deadline)
        finally:
            place.waiting.remove(ticket)
            place.wake()

    async def release(self, ticket: LockTicket) -> None:
        """Remove the lock that this ticket set; a lock of somebody else is left alone. Failures are logged."""
        place = self._places.get(ticket.node)
        if place is None or place.held_uid != ticket.uid:
            return
        value, place.held_uid = place.held_value, ""
        for _ in range(5):
            try:
                node = await self._client.get(NODES, ticket.node)
                if node.annotations.get(NODE_LOCK) == value:
                    node = await self._write(node, None)
                self.apply_node(node)
            except ConflictError:
                continue
            except ApiError as error:
                _log.warning("node lock not released, it will be taken over", node=ticket.node, cause=str(error))
            return

    async def _wait_for_news(self, place: _Place, ticket: LockTicket, deadline: float) -> None:
        if not ticket.is_wanted():
            raise LockError(f"pod {ticket.namespace}/{ticket.name} no longer needs node {ticket.node}")
        left_s = deadline - self._clocks.monotonic()
        if left_s <= 0:
            limit = format_duration(timedelta(seconds=self._settings.node_lock_retry_timeout_s))
            raise LockError(
                f"timed out after {limit} waiting for node {ticket.node} to be unlocked: node lock contention"
            )
        changed = place.changed
        try:
            async with asyncio.timeout(min(left_s, OWNER_CHECK_S)):
                await changed.wait()
        except TimeoutError:
            return

    async def _try(self, place: _Place, ticket: LockTicket) -> bool:
        """Set the lock if it is free or abandoned, or ours already."""
        if not ticket.is_wanted():
            return False
        if place.node is None:
            await self._look(place, ticket)
        if place.value and place.value == place.held_value and place.held_uid == ticket.uid:
            return True
        if place.value and not await self._is_abandoned(place, ticket.node):
            return False
        return await self._set(place, ticket)

    async def _set(self, place: _Place, ticket: LockTicket) -> bool:
        value = encode_lock(NodeLock(self._clocks.now(), ticket.namespace, ticket.name))
        assert place.node is not None  # noqa: S101 - _try has looked
        try:
            place.node = await self._write(place.node, value)
        except ConflictError:
            await self._look(place, ticket)
            return False
        except ApiError as error:
            if not error.outcome_unknown:
                raise LockError(f"failed to set node lock (node={ticket.node}): {error}") from error
            await self._look(place, ticket)
            if place.value != value:
                raise LockError(f"failed to set node lock (node={ticket.node}): {error}") from error
        place.held_uid, place.held_value = ticket.uid, value
        return True

    async def _look(self, place: _Place, ticket: LockTicket) -> None:
        try:
            place.node = await self._client.get(NODES, ticket.node)
        except NotFoundError as error:
            raise LockError(f'node "{ticket.node}" not found') from error
        except ApiError as error:
            raise LockError(f"failed to get node {ticket.node}: {error}") from error

    async def _write(self, node: Node, value: str | None) -> Node:
        return await self._client.patch(
            NODES,
            node.name,
            {"metadata": {"annotations": {NODE_LOCK: value}}},
            resource_version=node.metadata.resource_version,
            timeout_s=WRITE_DEADLINE_S,
        )

    async def _is_abandoned(self, place: _Place, node: str) -> bool:
        """Whether the lock may be taken: it has expired, or its owner has been over for a while."""
        now, limit_s = self._clocks.monotonic(), self._settings.node_lock_timeout_s
        if place.suspicion is None or place.suspicion.value != place.value:
            place.suspicion = _Suspicion(place.value, first_seen=now, checked=now)
        suspicion = place.suspicion
        try:
            lock = decode_lock(suspicion.value)
        except WireError as error:
            _log.warning("node lock cannot be read", node=node, value=suspicion.value, cause=str(error))
            return now - suspicion.first_seen > limit_s
        if self._clocks.now() - lock.time > timedelta(seconds=limit_s):
            return True
        if not lock.name or now - suspicion.checked < OWNER_CHECK_S:
            return False
        suspicion.checked = now
        if not is_over(lock, await self._find_owner(lock), node, self._clocks.now()):
            suspicion.over_since = None
            return False
        if suspicion.over_since is None:
            suspicion.over_since = now
        return now - suspicion.over_since >= OWNER_CHECK_S

    async def _find_owner(self, lock: NodeLock) -> Pod | None:
        try:
            return await self._client.get(PODS, lock.name, namespace=lock.namespace)
        except NotFoundError:
            return None
        except ApiError as error:
            raise LockError(f"failed to get the owner of a node lock: {error}") from error


def _version(node: Node) -> int:
    # Kubernetes declares resource versions comparable as integers from 1.35 on; all servers have always made them so.
    version = node.metadata.resource_version
    return int(version) if version.isdecimal() else 0
