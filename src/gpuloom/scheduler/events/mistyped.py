"""Events about pods that ask for resources which no node has: whoever makes pods by a Deployment sees no warning."""

from dataclasses import dataclass

from gpuloom.kube import EventRecorder
from gpuloom.kube.podevents import record
from gpuloom.scheduler.admission.review import belongs_to_another_scheduler
from gpuloom.scheduler.admission.unknown import find_unknown
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import Charge
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.scheduler.watch.shown import ShownObjects

PERIOD_S = 1.0
REASON = "UnknownResource"


@dataclass(frozen=True, slots=True)
class MistypedEvents:
    """Records an event for each such resource of a new pod; the replica in charge does."""

    settings: SchedulerSettings
    shown: ShownObjects
    charge: Charge
    recorder: EventRecorder
    clocks: Clocks

    async def run(self) -> None:
        """Record until cancelled."""
        await self.clocks.every(PERIOD_S, self._tell_new)

    async def _tell_new(self) -> None:
        pods = [pod for pod in self.shown.mistyped.take_new() if not belongs_to_another_scheduler(pod, self.settings)]
        if not pods:
            return
        time_slice = TimeSlice()
        offered = await time_slice.finish(self.shown.read_offered())
        for pod in pods:
            if not self.charge.is_ours:
                return
            for one in find_unknown(pod, self.settings.catalog, offered.__contains__):
                record(self.recorder, pod, "Warning", REASON, one.full_text)
            await time_slice.yield_if_over()
