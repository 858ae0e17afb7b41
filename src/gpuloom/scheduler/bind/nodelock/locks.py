"""The node lock and its queue: one pod at a time is handed to a node's device plugin (binding 3).

The lock is an annotation on the node. Binds of one node wait here in the order in which they came; when the watch
shows that the lock is gone, the first one sets it at once. A lock whose owner is over is taken from it. The normal end
of a lock is its release by the device plugin.

Where the device plugin is gpuloom's, nobody sets a lock: the phase of the pod that was bound last says that it has not
been served yet, and the first one goes on when it has (binding 9). A lock that is there all the same is honoured.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from gpuloom.engine.state.unserved import UnservedPods
from gpuloom.kube import NODES, WRITE_DEADLINE_S, ApiError, ConflictError, KubeClient, NotFoundError
from gpuloom.kube.annotations import Annotations, change_annotations, swap_annotations
from gpuloom.kube.transport import go_on
from gpuloom.scheduler.bind.nodelock.ownercheck import OWNER_CHECK_S, LockOwnerCheck
from gpuloom.scheduler.bind.nodelock.queue import COMMON_LOCK, LockQueue, LockTicket
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.durations import format_seconds
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.pods.plugins import PluginPods
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.sidebyside import do_side_by_side
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.vendors.profile import LockRules
from gpuloom.wire.keys import NODE_SERVES
from gpuloom.wire.lock import NodeLock, encode_lock
from gpuloom.wire.objects import Node

WRITES_AT_ONCE = 32
"""So many locks are set at once, and so many bindings. More would wait in the API server, each on a connection of its
own, and use up their deadline there."""

SWEEPS_AT_ONCE = 8
"""So many locks are looked at side by side: a scheduler that was killed may leave one on every node."""

_SHORTEST_WAIT_S = 0.05

_log = structlog.get_logger(__name__)


class LockError(Exception):
    """The lock could not be had; the message names the node, in HAMi's words where HAMi has some."""


@dataclass(slots=True)
class NodeLocks:
    """All node locks of the cluster, as one process sees and takes them."""

    client: KubeClient
    settings: SchedulerSettings
    clocks: Clocks
    owner_check: LockOwnerCheck
    unserved: UnservedPods
    plugins: PluginPods
    _queues: dict[tuple[str, str], LockQueue] = field(default_factory=dict)
    # Where the watch has shown a lock, and perhaps none by now, of few of very many nodes: its value, and the
    # monotonic seconds when it was first shown.
    _shown_locked: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    _writes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITES_AT_ONCE))
    _rules: dict[str, LockRules] = field(init=False)

    def __post_init__(self) -> None:
        shared = {profile.lock.key: profile.lock for profile in self.settings.catalog if profile.lock.key}
        self._rules = {COMMON_LOCK.key: COMMON_LOCK} | shared

    @property
    def waiting(self) -> int:
        """How many Binds wait for a lock now."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def held(self) -> list[tuple[str, str, float]]:
        """List the locks that are held: node, key of the lock, and the seconds since the watch showed this one."""
        now_s = self.clocks.monotonic()
        return [
            (*where, now_s - since_s)
            for where, (value, since_s) in self._shown_locked.items()
            if where in self._queues and self._queues[where].value == value
        ]

    def __len__(self) -> int:
        """How many locks of nodes are remembered here."""
        return len(self._queues)

    def replace_nodes(self, nodes: Iterable[Node]) -> None:
        """Take a complete list: nodes that are not in it are gone."""
        listed = {node.name: node for node in nodes}
        for name in {name for name, _ in self._queues} - listed.keys():
            self.delete_node(name)
        for node in listed.values():
            self.apply_node(node)

    def apply_node(self, node: Node) -> None:
        """Take what the watch shows of a node; ignore what is older than our own last write."""
        for key, rules in self._rules.items():
            # Few nodes have another lock than the common one.
            if key == COMMON_LOCK.key or key in node.annotations or (node.name, key) in self._queues:
                queue = self._queue_of(node.name, rules)
                queue.apply(node)
                shown = self._shown_locked.get((node.name, key))
                if queue.value and (shown is None or shown[0] != queue.value):
                    self._shown_locked[node.name, key] = queue.value, self.clocks.monotonic()

    def _queue_of(self, node: str, rules: LockRules) -> LockQueue:
        return self._queues.setdefault((node, rules.key), LockQueue(rules=rules))

    def delete_node(self, name: str) -> None:
        """Take that a node is gone; whoever waits for it finds out."""
        for key in self._rules:
            self._shown_locked.pop((name, key), None)
            if queue := self._queues.get((name, key)):
                queue.node = None
                queue.wake()
                self._tidy(name, queue)

    def see(self, name: str) -> Iterator[Node]:
        """Give a node as each of its locks was seen last: where one has just been set, the watch may be behind."""
        for key in self._rules:
            queue = self._queues.get((name, key))
            if queue is not None and queue.node is not None:
                yield queue.node

    def wake(self) -> None:
        """Let every waiter see at once whether it is still to wait."""
        for queue in self._queues.values():
            queue.wake_all()

    def wake_node(self, name: str) -> None:
        """Let the first who waits for a node see at once whether it is still busy."""
        for key in self._rules:
            if queue := self._queues.get((name, key)):
                queue.wake()

    @asynccontextmanager
    async def hold(self, ticket: LockTicket) -> AsyncIterator[None]:
        """Wait for our turn, set the lock if the node needs one, and hold both during a Bind.

        A Bind that ends well leaves the lock to the device plugin; one that raises removes it. A cancelled Bind leaves
        it, because nobody knows whether its write took effect.

        Raises LockError when the wait is too long, the lock is not wanted any more, or the API server refuses.
        """
        queue = self._queue_of(ticket.node, ticket.rules)
        try:
            await self._acquire(queue, ticket)
            yield
        except Exception:
            await self._release(queue, ticket)
            raise
        finally:
            if queue.holder is ticket:
                queue.holder = None
            queue.wake()
            self._tidy(ticket.node, queue)

    async def sweep(self) -> None:
        """Remove locks whose owner is over and for which nobody waits, such as those of an earlier process."""
        time_slice, due = TimeSlice(), list[tuple[str, LockQueue]]()
        for key in list(self._shown_locked):
            await time_slice.yield_if_over()
            queue = self._queues.get(key)
            if queue is None or not queue.value:
                self._shown_locked.pop(key, None)
            elif queue.is_idle and self.owner_check.is_due(queue):
                due.append((key[0], queue))
        await do_side_by_side(due, self._try_sweep, at_once=SWEEPS_AT_ONCE)

    async def _try_sweep(self, where: tuple[str, LockQueue]) -> None:
        name, queue = where
        try:
            await self._sweep(name, queue)
        except StoppedError:
            pass
        except ApiError as error:
            _log.warning("node lock not swept, tried again later", node=name, cause=str(error))

    async def _sweep(self, name: str, queue: LockQueue) -> None:
        seen = queue.value
        # Whoever waits by now looks for itself.
        if not queue.is_idle:
            return
        if await self.owner_check.is_owner_over(queue, name) and queue.is_idle and queue.node and queue.value == seen:
            check = self.owner_check.state.charge.check
            queue.apply(await self._write(queue.node, queue.rules.key, None, check))
            _log.info("node lock removed, its owner is over", node=name, value=seen)

    def _tidy(self, name: str, queue: LockQueue) -> None:
        key = (name, queue.rules.key)
        if queue.node is None and queue.is_idle and self._queues.get(key) is queue:
            del self._queues[key]

    async def _acquire(self, queue: LockQueue, ticket: LockTicket) -> None:
        """Wait until the ticket is first in the queue and the node is free, then take both."""
        deadline = self.clocks.monotonic() + self.settings.node_lock_retry_timeout_s
        with queue.line_up(ticket):
            while True:
                # Taken before looking: what the watch shows while we look must not be slept through.
                news = queue.news_for(ticket)
                if queue.is_first(ticket) and await self._try_to_lock(queue, ticket):
                    queue.holder = ticket
                    return
                await self._wait_for(news, queue, ticket, deadline)

    async def _wait_for(self, news: asyncio.Event, queue: LockQueue, ticket: LockTicket, deadline: float) -> None:
        _check_wanted(ticket)
        if not self._may_wait(ticket):
            limit = _describe_limit(ticket, self.settings.node_lock_timeout_s)
            raise LockError(f"node {ticket.node} has been locked within {limit}: node lock contention")
        left_s = deadline - self.clocks.monotonic()
        if left_s <= 0:
            limit = format_seconds(self.settings.node_lock_retry_timeout_s)
            raise LockError(
                f"timed out after {limit} waiting for node {ticket.node} to be unlocked: node lock contention"
            )
        await self.clocks.set_within(news, min(left_s, self._until_next_look(queue, ticket)))

    def _until_next_look(self, queue: LockQueue, ticket: LockTicket) -> float:
        """Return the seconds until the next question about the owner of a lock; only the first who waits asks.

        News of the watch in between do not change this time.
        """
        if queue.blocking is None or not queue.is_first(ticket):
            return OWNER_CHECK_S
        due_s = queue.blocking.checked + OWNER_CHECK_S - self.clocks.monotonic()
        return min(max(due_s, _SHORTEST_WAIT_S), OWNER_CHECK_S)

    def _may_wait(self, ticket: LockTicket) -> bool:
        """Whether a pod waits for a lock at all (D-42)."""
        settings = self.settings
        return settings.node_lock_retry_timeout_s > 0 and (settings.lock_wait == "all" or ticket.in_group)

    async def _try_to_lock(self, queue: LockQueue, ticket: LockTicket) -> bool:
        """Take the turn if the node is free: set its lock, if it needs one, unless it is ours already.

        False also when the outcome is not known.
        """
        # While a Bind has the lock or gives it back, no other may take it, not even one of the same pod: the first Bind
        # would remove the lock of the second.
        if ticket.objection() or queue.holder is not None:
            return False
        try:
            return await self._lock_if_free(queue, ticket)
        except NotFoundError as error:
            raise LockError(f'node "{ticket.node}" not found') from error
        except ApiError as error:
            if not error.outcome_unknown:
                raise LockError(f"failed to set node lock (node={ticket.node}): {error}") from error
            _log.warning("node lock not set yet", node=ticket.node, pod=ticket.full_name, cause=str(error))
            return False

    async def _lock_if_free(self, queue: LockQueue, ticket: LockTicket) -> bool:
        """Set the lock unless another has it; tell whether it is ours now."""
        if queue.node is None:
            queue.apply(await self._read(ticket.node))
        seen = queue.value
        queue.has_lock = True
        if seen and queue.is_ours(ticket):
            return True
        if self._is_busy(queue, ticket):
            return False
        if not seen and self._goes_without_lock(queue, ticket):
            queue.has_lock = False
            return True
        if seen and not await self.owner_check.is_abandoned(queue, ticket.node):
            return False
        async with self._writes:
            if queue.value != seen or queue.node is None or ticket.objection() or self._is_busy(queue, ticket):
                return False
            return await self._write_lock(queue, queue.node, ticket)

    def _goes_without_lock(self, queue: LockQueue, ticket: LockTicket) -> bool:
        """Whether the phase of the pod will be the lock."""
        if self.settings.node_lock == "always" or queue.node is None:
            return False
        return self.plugins.serves(queue.node, ticket.vendors)

    def _is_busy(self, queue: LockQueue, ticket: LockTicket) -> bool:
        """Whether a pod that was bound to the node has not been served, on nodes that need or needed no lock."""
        if queue.node is None or NODE_SERVES not in queue.node.annotations:
            return False
        blocker = self.unserved.blocker(ticket.node, ticket.rules.key, self.clocks.monotonic())
        return blocker is not None and blocker.uid != ticket.uid

    async def _write_lock(self, queue: LockQueue, node: Node, ticket: LockTicket) -> bool:
        """Write the lock on the node as it was read; tell whether it is ours now."""
        now = self.clocks.now()
        value = encode_lock(
            NodeLock(now, ticket.namespace, ticket.name) if ticket.rules.names_holder else NodeLock(now)
        )
        # Noted before the write: when its reply is lost, the value is known as ours once it is seen.
        queue.note_ours(ticket, value)
        try:
            queue.apply(await self._write(node, ticket.rules.key, value, lambda: _check_wanted(ticket)))
        except ApiError as error:
            if not (error.outcome_unknown or isinstance(error, ConflictError)):
                raise
            queue.apply(await self._read(ticket.node))
            if not isinstance(error, ConflictError) and queue.value != value:
                raise
        return queue.value == value

    async def _release(self, queue: LockQueue, ticket: LockTicket) -> None:
        """Remove the lock that this ticket set; a lock of somebody else is left alone. Failures are logged."""
        if queue.holder is not ticket or not queue.has_lock:
            return

        def free(node: Node) -> Annotations:
            queue.apply(node)
            return {ticket.rules.key: None} if queue.is_ours(ticket) else {}

        try:
            queue.apply(await change_annotations(self.client, NODES, ticket.node, free, sleep=self.clocks.sleep))
        except ApiError as error:
            _log.warning("node lock not released, it will be taken over", node=ticket.node, cause=str(error))

    async def _read(self, name: str) -> Node:
        return await self.client.get(NODES, name, timeout_s=WRITE_DEADLINE_S)

    async def _write(self, node: Node, key: str, value: str | None, recheck: Callable[[], None] = go_on) -> Node:
        return await swap_annotations(self.client, NODES, node, {key: value}, recheck)


def _check_wanted(ticket: LockTicket) -> None:
    """Raise LockError when the lock is not wanted any more."""
    if objection := ticket.objection():
        raise LockError(f"{objection} while waiting for node lock: node lock contention")


def _describe_limit(ticket: LockTicket, timeout_s: float) -> str:
    """Say when a lock expires, as HAMi says it of each kind."""
    if ticket.rules.expires_s:
        return f"{ticket.rules.expires_s // 60} minutes"
    return format_seconds(timeout_s)
