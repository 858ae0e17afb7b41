"""Events about pods that were bound and that no device plugin serves: on the pod, once each (binding 9).

Time alone frees no node: a late Allocate would find the next pod alone there, and take its cards.
"""

from dataclasses import dataclass, field

from gpuloom.engine.state.unserved import UnservedPod, UnservedPods
from gpuloom.kube import EventRecorder
from gpuloom.kube.recorder import Subject
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.durations import format_seconds
from gpuloom.scheduler.leadership.charge import Charge

PERIOD_S = 5.0
MOST_AT_ONCE = 20
REASON = "DevicePluginSilent"


@dataclass(slots=True)
class UnservedEvents:
    """Records an event about every pod that has waited for longer than ``limit_s``; the replica in charge does."""

    unserved: UnservedPods
    limit_s: float
    charge: Charge
    recorder: EventRecorder
    clocks: Clocks
    _reported: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Record until cancelled."""
        await self.clocks.every(PERIOD_S, self.record_new)

    def record_new(self) -> None:
        """Record what is new since the last time."""
        if not self.charge.is_ours:
            return
        late = self.unserved.overdue(self.limit_s, self.clocks.monotonic())
        self._reported &= {one.uid for one in late}
        for one in [one for one in late if one.uid not in self._reported][:MOST_AT_ONCE]:
            self._reported.add(one.uid)
            self._record(one)

    def _record(self, one: UnservedPod) -> None:
        self.recorder.record(
            Subject("Pod", one.namespace, one.name, one.uid),
            "Warning",
            REASON,
            f"node {one.node} has not started this pod for more than {format_seconds(self.limit_s)}, and starts no "
            "other one with cards meanwhile: see whether its kubelet and its device plugin run, or delete this pod",
        )
