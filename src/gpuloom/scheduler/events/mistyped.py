"""Events about pods that ask for resources which no node has: whoever makes pods by a Deployment sees no warning."""

from dataclasses import dataclass

from gpuloom.kube import EventRecorder
from gpuloom.kube.podevents import record
from gpuloom.scheduler.admission.review import belongs_to_another_scheduler
from gpuloom.scheduler.admission.unknown import find_unknown
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.objects import Pod

PERIOD_S = 1.0
REASON = "UnknownResource"


@dataclass(frozen=True, slots=True)
class MistypedEvents:
    """Records an event for each such resource of a new pod; the replica in charge does."""

    state: SchedulerState
    recorder: EventRecorder
    clocks: Clocks

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            await self.clocks.sleep(PERIOD_S)
            if pods := self.state.shown.mistyped.take_new():
                await self._tell([pod for pod in pods if not belongs_to_another_scheduler(pod, self.state.settings)])

    async def _tell(self, pods: list[Pod]) -> None:
        time_slice = TimeSlice()
        offered: set[str] = set()
        for node in list(self.state.shown.nodes.values()):
            offered.update(node.status.allocatable or ())
            await time_slice.yield_if_over()
        for pod in pods:
            if not self.state.charge.is_ours:
                return
            for one in find_unknown(pod, self.state.settings.catalog, offered.__contains__):
                record(self.recorder, pod, "Warning", REASON, one.full_text)
            await time_slice.yield_if_over()
