"""Moves for pods that wait long, made by the scheduler itself while it is in charge.

Now and then it looks for the most important pod that has waited longer than a settable time, plans as ``gpuloom defrag
--for`` does, and makes the moves as ``--execute`` does. Cards that a process left closed, because it was killed or lost
its leadership, are opened by whoever is in charge next: the node says which they are. So are those of a command that
was killed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from math import inf

import structlog

from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.kube.client import KubeClient
from gpuloom.kube.cordons import MoveClosing, list_closed_by_command, list_closed_for_moves
from gpuloom.kube.errors import ApiError
from gpuloom.kube.podevents import record
from gpuloom.kube.recorder import EventRecorder
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.defragmentation.abandoned import AbandonedClosings
from gpuloom.scheduler.defragmentation.cluster import MovingCluster, OwnedPod, keep_bound, read_budgets, read_pods
from gpuloom.scheduler.defragmentation.moving import MoveError, MoveReport, make_moves
from gpuloom.scheduler.defragmentation.planning import order_moves, plan_for
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.pods.waiting import UnschedulablePod
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.keys import NODE_DEFRAG, NODE_MOVING
from gpuloom.wire.objects import Node

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DefragmentationCounts:
    """Counts since the start of the process: pods that were moved, and plans by what became of them."""

    moves: int = 0
    plans: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Defragmenter:
    """Makes moves for pods that wait. ``counts`` says how many."""

    client: KubeClient
    state: SchedulerState
    recorder: EventRecorder
    clocks: Clocks
    counts: DefragmentationCounts = field(default_factory=DefragmentationCounts)
    _tried: dict[str, float] = field(default_factory=dict)
    _abandoned: AbandonedClosings = field(init=False)

    def __post_init__(self) -> None:
        self._abandoned = AbandonedClosings(self.clocks.monotonic)

    async def run(self) -> None:
        """Look for pods that wait until cancelled; switched off, only open what was left closed."""
        async with asyncio.TaskGroup() as tasks:
            # Not before or after our own moves: they may take the better part of an hour.
            tasks.create_task(self.clocks.every(self.state.settings.defragmentation_interval_s, self._open_abandoned))
            tasks.create_task(self._make_moves())

    async def _make_moves(self) -> None:
        settings = self.state.settings
        while True:
            await self.clocks.sleep(settings.defragmentation_interval_s)
            try:
                await self._open_left()
                if settings.defragmentation == "on" and (pod := self._choose()) is not None:
                    await self._try(pod)
            except StoppedError:
                self.counts.plans["stopped"] += 1
            except ApiError as error:
                self.counts.plans["failed"] += 1
                _log.warning("no moves made", cause=str(error))
            _end_if_cancelled()

    async def _open_left(self) -> None:
        """Open the cards that another process in charge, or this one in an earlier term, left closed."""
        async for node in self._each_node():
            if closed := list_closed_for_moves(node):
                await self._open(MoveClosing(self.client, node.name, NODE_MOVING, [*closed]))

    async def _open_abandoned(self) -> None:
        """Open the cards of commands that were killed."""
        async for node in self._each_node():
            if closed := self._abandoned.find(node):
                _, renewed = list_closed_by_command(node)
                await self._open(MoveClosing(self.client, node.name, NODE_DEFRAG, [*closed], {renewed}))
        self._abandoned.keep_only(self.state.shown.nodes)

    async def _each_node(self) -> AsyncIterator[Node]:
        """Give the nodes while this process is in charge, and let others run meanwhile."""
        time_slice = TimeSlice()
        for node in list(self.state.shown.nodes.values()):
            await time_slice.yield_if_over()
            if not self.state.charge.is_ours:
                return
            yield node

    async def _open(self, closing: MoveClosing) -> None:
        try:
            opened = await closing.open(self.state.charge.check)
        except (ApiError, StoppedError) as error:
            told = {"node": closing.node, "cards": closing.cards, "cause": str(error)}
            _log.warning("cards stay closed that moves left closed", **told)
        else:
            if opened:
                _log.info("cards opened that moves left closed", node=closing.node, cards=opened)

    def _choose(self) -> HostPod | None:
        """Return the most important pod that has waited long enough.

        Of equal ones the one that was tried longest ago, and of those that were not the one that waits longest: many
        that no moves help would else keep the others from their turn.
        """
        now, wait_s = self.clocks.monotonic(), self.state.settings.defragmentation_wait_s
        waiting = self.state.waiting
        # Not only of those that wait just now: one that is woken in vain waits again, as long as before.
        known = waiting.unschedulable.keys() | waiting.woken_since.keys()
        self._tried = {uid: when for uid, when in self._tried.items() if uid in known or now - when < wait_s}
        for one in sorted(waiting.unschedulable.values(), key=self._rank) if self.state.charge.is_ours else ():
            uid = one.pod.metadata.uid
            pod = self.state.shown.pods.get(uid)
            is_due = now - max(one.since, self._tried.get(uid, -inf)) >= wait_s
            if is_due and isinstance(pod, HostPod) and self._waits(uid) and self._may_move_others(pod):
                return pod
        return None

    def _rank(self, one: UnschedulablePod) -> tuple[int, float, float]:
        return -one.pod.priority, self._tried.get(one.pod.metadata.uid, -inf), one.since

    def _may_move_others(self, pod: HostPod) -> bool:
        """Whether others may be moved for a pod: for none whose room is made already, and for none of a group.

        Whether the others of its group find room too is not known, and pods may move in vain.
        """
        return not pod.own_group and self.state.nominations.find(pod.metadata.uid) is None

    async def _try(self, pod: HostPod) -> None:
        try:
            await self._make_room(pod)
        finally:
            # Not when it began: moves that come to nothing may take longer than pods have to wait.
            self._tried[pod.metadata.uid] = self.clocks.monotonic()

    async def _make_room(self, pod: HostPod) -> None:
        check = self.state.charge.hold()
        cluster = await self._read()
        plan = await self._plan(cluster, pod)
        if plan is None:
            self.counts.plans["none"] += 1
            return
        if not plan.moves:
            self.counts.plans["fits"] += 1
            return
        check()
        count = f"{len(plan.moves)} pod{'s' if len(plan.moves) > 1 else ''}"
        record(self.recorder, pod, "Normal", "MovesStarted", f"moving {count} off node {plan.node} so that it fits")
        _log.info("moving pods", room_for=pod.full_name, node=plan.node, pods=len(plan.moves))
        try:
            await self._move(pod, plan, cluster, check)
        except (MoveError, ApiError) as error:
            self.counts.plans["failed"] += 1
            _log.warning("moves stopped", room_for=pod.full_name, node=plan.node, cause=str(error))
            # Without the names of others' pods, which are in the log.
            record(self.recorder, pod, "Warning", "MovesStopped", f"moves off node {plan.node} came out otherwise")
        else:
            self.counts.plans["made"] += 1

    async def _read(self) -> MovingCluster:
        budgets, pods = await read_budgets(self.client), keep_bound(await read_pods(self.client))
        spared = self.state.settings.spared_namespaces

        def stays(pod: OwnedPod) -> bool:
            return pod.namespace in spared or bool(cluster.find_forbidding(pod.metadata.uid))

        cluster = MovingCluster(self.state, pods, budgets, usage=self.state.shown.hosts, stays=stays)
        return cluster

    async def _plan(self, cluster: MovingCluster, pod: HostPod) -> DefragmentationPlan | None:
        try:
            return await TimeSlice().finish(plan_for(cluster, pod, self.state.settings.defragmentation_most_moves))
        except PolicyError:
            return None

    async def _move(
        self, pod: HostPod, plan: DefragmentationPlan, cluster: MovingCluster, check: Callable[[], None]
    ) -> None:
        uid = pod.metadata.uid

        def recheck_move() -> None:
            if not self._waits(uid) or self.state.nominations.find(uid) is not None:
                raise StoppedError

        def note(moved: OwnedPod) -> None:
            self.counts.moves += 1
            _log.info("pod evicted", pod=moved.full_name, node=plan.node, room_for=pod.full_name)
            # By UID: names of other namespaces are nobody's business.
            record(self.recorder, moved, "Normal", "Moved", f"Evicted to make room on node {plan.node} for pod {uid}")

        report = MoveReport(note, lambda moved, node: _log.info("pod runs again", pod=moved.full_name, node=node))
        timeout_s = self.state.settings.defragmentation_timeout_s
        moving = order_moves(cluster, plan, timeout_s, NODE_MOVING)
        await make_moves(self.client, moving, report, recheck=check, recheck_move=recheck_move)

    def _waits(self, uid: str) -> bool:
        pod = self.state.shown.pods.get(uid)
        return pod is not None and not pod.spec.node_name and self.state.cluster.ledger.find(uid) is None


def _end_if_cancelled() -> None:
    """Raise CancelledError where another error, of opening cards on the way out, took its place."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
