"""Events about pods that fit nowhere: at once, and the newest again as long as they are refused.

kube-scheduler tries a refused pod again at any event of the cluster, so in a full cluster most of what is refused was
refused a moment ago, and every event is a write.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.kube import EventRecorder
from gpuloom.kube.podevents import record
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import Charge
from gpuloom.scheduler.pods.waiting import ToldRefusal, WaitingPods
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

PERIOD_S = 10.0
"""So long nothing new is told of a pod that was told of."""
LOOK_S = 1.0
REASON = "FilteringFailed"


@dataclass(frozen=True, slots=True)
class RefusedPodEvents:
    """Records why pods fit nowhere; of each pod every ``period_s`` at most, always if that is 0."""

    waiting: WaitingPods
    charge: Charge
    recorder: EventRecorder
    clocks: Clocks
    period_s: float = PERIOD_S

    def tell(self, pod: Pod, messages: Sequence[str], *, is_followed: bool = False) -> None:
        """Take why a pod was refused; where a call about more nodes follows at once, that one's answer counts."""
        uid, now = pod.metadata.uid, self.clocks.monotonic()
        told = self.waiting.told.get(uid)
        if told is not None and now - told.at < self.period_s:
            told.later = pod, messages
        elif is_followed and self.period_s:
            self.waiting.told[uid] = ToldRefusal(now - self.period_s + LOOK_S, (pod, messages))
        else:
            self.waiting.told[uid] = ToldRefusal(now)
            for message in messages:
                record(self.recorder, pod, "Warning", REASON, message)

    async def run(self) -> None:
        """Tell what was held back, when its time has come, until cancelled."""
        await self.clocks.every(LOOK_S, self.tell_due)

    def tell_due(self) -> None:
        """Tell the newest of every pod that was told of long enough ago, and forget those of which there is nothing."""
        if self.charge.obstacle:
            return
        now, known = self.clocks.monotonic(), self.waiting.told
        for uid, told in [(uid, told) for uid, told in known.items() if now - told.at >= self.period_s]:
            del known[uid]
            if told.later is not None:
                self.tell(*told.later)


def asks_nominated_alone(pod: Pod, names: NodeNames) -> bool:
    """Tell whether a call offers the pod's nominated node alone: one with all nodes follows where that refuses."""
    nominated = pod.status.nominated_node_name
    return bool(nominated) and len(names) == 1 and names.has(nominated)
