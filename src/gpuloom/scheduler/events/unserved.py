"""Events about pods that were bound and that no device plugin serves: on the pod, once each (binding 9).

Time alone frees no node: a late Allocate would find the next pod alone there, and take its cards.
"""

from dataclasses import dataclass, field

from gpuloom.engine.state.unserved import Unserved
from gpuloom.kube import EventRecorder
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.durations import format_seconds
from gpuloom.scheduler.state import SchedulerState

PERIOD_S = 5.0
MOST_AT_ONCE = 20
REASON = "DevicePluginSilent"


@dataclass(slots=True)
class UnservedEvents:
    """Records an event about every pod that has waited for longer than a lock counts; the replica in charge does."""

    state: SchedulerState
    recorder: EventRecorder
    clocks: Clocks
    _reported: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            await self.clocks.sleep(PERIOD_S)
            self.record_new()

    def record_new(self) -> None:
        """Record what is new since the last time."""
        if not self.state.charge.is_ours:
            return
        limit_s = self.state.settings.node_lock_timeout_s
        late = self.state.binds.unserved.overdue(limit_s, self.clocks.monotonic())
        self._reported &= {one.uid for one in late}
        for one in [one for one in late if one.uid not in self._reported][:MOST_AT_ONCE]:
            self._reported.add(one.uid)
            self._record(one, limit_s)

    def _record(self, one: Unserved, limit_s: float) -> None:
        self.recorder.record(
            kind="Pod",
            namespace=one.namespace,
            name=one.name,
            uid=one.uid,
            type="Warning",
            reason=REASON,
            message=(
                f"node {one.node} has not started this pod for more than {format_seconds(limit_s)}, and starts no "
                "other one with cards meanwhile: see whether its kubelet and its device plugin run, or delete this pod"
            ),
        )
