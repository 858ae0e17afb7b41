"""Moves unschedulable pods back into the queue of kube-scheduler, when capacity is freed (binding 4).

kube-scheduler tries a refused pod again on any cluster event, but a Filter that came before our watch had seen the
same event was refused again, and then nothing follows for minutes. A change of the pod itself puts it back into the
queue, so one annotation is patched.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from gpuloom.engine.planning.together import fit_together
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.kube import WRITE_DEADLINE_S, ApiError, ConflictError, KubeClient
from gpuloom.kube.annotations import patch_pod
from gpuloom.kube.backoff import Backoff
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.pods.waiting import UnschedulablePod, WaitingKind
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import SHORT_S, TimeSlice
from gpuloom.wire.keys import WOKEN
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_time

PAUSE_S = 0.05
"""At most 20 of them a second."""
QUIET_S = 2 * WRITE_DEADLINE_S
"""Where no wake-up has failed for so long, the next one that does is tried again soon."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodRequeuer:
    """Requeues unschedulable pods that would fit now: nominated ones first, then the oldest.

    failed  set when one could not be woken and waits on
    """

    client: KubeClient
    state: SchedulerState
    clocks: Clocks
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Requeue until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._try_again())
            while True:
                await self.state.waiting.capacity_freed.wait()
                self.state.waiting.capacity_freed.clear()
                if self.state.charge.obstacle:
                    continue
                await self._requeue_nominated(tasks)
                await self._requeue_those_that_fit()

    async def _try_again(self) -> None:
        """Look at those that wait again after wake-ups that failed, later each time in a row."""
        backoff = Backoff()
        while True:
            await self.failed.wait()
            await self.clocks.sleep(backoff.delay_s())
            self.failed.clear()
            self.state.waiting.capacity_freed.set()
            await self.clocks.wait(self.failed, QUIET_S)
            if not self.failed.is_set():
                backoff.reset()

    async def _requeue_nominated(self, tasks: asyncio.TaskGroup) -> None:
        """Requeue all nominated pods whose own nodes have room now, none after the other: nobody else may take it."""
        time_slice = TimeSlice(SHORT_S)
        for nomination in self.state.nominations:
            waiting = self.state.waiting.unschedulable.get(nomination.uid)
            if waiting is None or self.state.nominations.find(nomination.uid) is not nomination:
                continue
            if not self.state.charge.obstacle and self._has_own_room(waiting, nomination.node):
                self._begin(waiting)
                tasks.create_task(self._wake(waiting, nomination.node))
            await time_slice.yield_if_over()

    def _has_own_room(self, waiting: UnschedulablePod, node: str) -> bool:
        if waiting.pod.own_group or not self.state.cluster.has(node):
            return False
        return self.state.decider.takes(waiting.demands, node, waiting.pod.priority)

    async def _requeue_those_that_fit(self) -> None:
        async with aclosing(self.find_fitting(self._in_order())) as fitting:
            async for waiting in fitting:
                uid = waiting.pod.metadata.uid
                # While it was looked at, this process may have ceased to lead.
                if self.state.charge.obstacle:
                    return
                if uid not in self.state.waiting.unschedulable:
                    continue
                nomination = self.state.nominations.find(uid)
                await self.requeue(waiting, nomination.node if nomination else "")
                if self.state.waiting.capacity_freed.is_set():
                    # More came meanwhile: again from the oldest on, also for those that did not fit until now.
                    return

    async def find_fitting(self, uids: Iterable[str]) -> AsyncGenerator[UnschedulablePod, None]:
        """Give those of some pods that still wait and would fit.

        Each is asked about at the last moment: between two of them others take the capacity, and pods go away.
        """
        time_slice = TimeSlice(SHORT_S)
        # Very many pods may wait, and few different ones among them.
        without_capacity: set[WaitingKind] = set()
        for uid in uids:
            waiting = self.state.waiting.unschedulable.get(uid)
            if waiting is None or waiting.kind in without_capacity:
                continue
            if await self._has_capacity(waiting, time_slice):
                yield waiting
            else:
                without_capacity.add(waiting.kind)
            await time_slice.yield_if_over()

    def _in_order(self) -> list[str]:
        """Return those that wait: first those for whom room was made, then the oldest.

        One that was woken in vain is the last: it would keep others from their turn.
        """
        waiting = self.state.waiting.unschedulable
        nominated = [one.uid for one in self.state.nominations if one.uid in waiting]
        return list(dict.fromkeys((*nominated, *waiting)))

    async def _has_capacity(self, waiting: UnschedulablePod, time_slice: TimeSlice) -> bool:
        """Tell whether the cards of any node would do for a pod; whose group failed needs room beside those who fitted.

        Else two groups that do not fit would wake each other for ever, by what each gives back. A group with a member
        whose wishes cannot be read any more has none: that member would be refused.
        """
        for _ in self.state.pod_scheduler.place_ahead(waiting.demands):
            await time_slice.yield_if_over()
        if not await time_slice.finish(self.state.decider.find_capacity(waiting.demands, waiting.pod.priority)):
            return False
        try:
            fitted = self._read_fitted(waiting.pod)
        except PolicyError:
            return False
        if not fitted:
            return True
        return await time_slice.finish(fit_together(self.state.pod_scheduler, [*fitted, waiting.demands]))

    def _read_fitted(self, pod: Pod) -> list[Demands]:
        """Return what those others of a pod's group ask for that fitted when the group failed.

        Raises PolicyError.
        """
        attempt = self.state.groups.find(pod)
        uids = attempt.given_back if attempt is not None else ()
        others = [
            self.state.shown.pods[uid] for uid in uids if uid in self.state.shown.pods and uid != pod.metadata.uid
        ]
        return [self.state.settings.read_demands(one) for one in others]

    async def requeue(self, waiting: UnschedulablePod, node: str = "") -> None:
        """Put a pod back into the queue, and have kube-scheduler ask a node first where one is named; then pause."""
        self._begin(waiting)
        await self._wake(waiting, node)
        await self.clocks.sleep(PAUSE_S)

    def _begin(self, waiting: UnschedulablePod) -> None:
        self.state.waiting.note_woken(waiting)
        self.state.groups.note_woken(waiting.pod)

    async def _wake(self, waiting: UnschedulablePod, node: str) -> None:
        """Put a pod back into the queue, and name the node to be asked first in the same write.

        In large clusters kube-scheduler offers some nodes only, and it takes the hint away whenever the pod is refused.
        """
        pod = waiting.pod
        body: dict[str, object] = {"metadata": {"annotations": {WOKEN: encode_time(self.clocks.now())}}}
        if node:
            body["status"] = {"nominatedNodeName": node}
        try:
            await patch_pod(self.client, pod, body, self.state.charge.check, subresource="status" if node else "")
        except StoppedError:
            self.state.waiting.note_not_woken(waiting)
        except ApiError as error:
            if self.state.cluster.ledger.find(pod.metadata.uid) is not None:
                # kube-scheduler tried it meanwhile, and what is bound cannot be pointed to a node.
                return
            is_open = error.outcome_unknown or isinstance(error, ConflictError)
            follows = "is tried again" if is_open else "waits for kube-scheduler's next try"
            _log.warning("pod not woken", pod=pod.full_name, follows=follows, cause=str(error))
            if is_open:
                self.state.waiting.note_not_woken(waiting)
                self.failed.set()
