"""Pods that the nodes of their call refused while a node that was not offered takes them (binding 4).

Of a hundred nodes or more kube-scheduler offers some only, and others with its next try, which may be 10 s later. So
such a pod is pointed to that node, which kube-scheduler then asks first, and put back into its queue.
"""

from contextlib import aclosing
from dataclasses import dataclass

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.hostfit import takes_beside_cards
from gpuloom.scheduler.pods.partlyoffered import WAIT_S
from gpuloom.scheduler.pods.requeue import PodRequeuer
from gpuloom.scheduler.pods.waiting import UnschedulablePod
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.hostpods import HostPod


@dataclass(frozen=True, slots=True)
class NodePointer:
    """Points pods to nodes that were not offered."""

    state: SchedulerState
    requeuer: PodRequeuer
    clocks: Clocks

    async def run(self) -> None:
        """Look at every refused pod until cancelled."""
        offered = self.state.waiting.partly_offered
        while True:
            await offered.changed.wait()
            offered.changed.clear()
            # Who comes to be in charge again wakes all that fit, pointed or not.
            while len(offered) and not self.state.charge.obstacle:
                await self.clocks.sleep(WAIT_S)
                await self._look()

    async def _look(self) -> None:
        offered, clock = self.state.waiting.partly_offered, self.clocks.monotonic
        async with aclosing(self.requeuer.find_fitting(offered.take_due(clock()))) as fitting:
            async for waiting in fitting:
                uid, node = waiting.pod.metadata.uid, await self._find_node(waiting)
                # Meanwhile the pod may have been filtered again, and this process may have ceased to lead.
                if self.state.charge.obstacle:
                    return
                if node and self.state.waiting.unschedulable.get(uid) is waiting:
                    offered.note_pointed(uid, node, clock())
                    await self.requeuer.requeue(waiting, node)

    async def _find_node(self, waiting: UnschedulablePod) -> str:
        """Return a node that takes a pod, as far as can be judged here; empty where none does."""
        uid, priority = waiting.pod.metadata.uid, waiting.pod.priority
        pod = self.state.shown.pods.get(uid)
        if not isinstance(pod, HostPod) or not self.state.shown.hosts.is_complete:
            return ""
        time_slice, demand = TimeSlice(), read_host_demand(pod, self.state.shown.hosts.ignored)
        kept = self.state.nominations.nodes_kept_from(uid, priority)
        taking = await time_slice.finish(self.state.pod_scheduler.find_taking(waiting.demands))
        promised = self.state.waiting.partly_offered.find_promised(self.clocks.monotonic())
        for name in sorted(taking - kept, key=lambda name: (name in promised, name)):
            await time_slice.yield_if_over()
            if takes_beside_cards(self.state.shown, name, demand):
                return name
        return ""
