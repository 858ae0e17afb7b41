"""Events about pods that fit nowhere: at once, and the newest again as long as they are refused.

kube-scheduler tries a refused pod again at any event of the cluster, so in a full cluster most of what is refused was
refused a moment ago, and every event is a write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuloom.engine.bounded import FifoDict
from gpuloom.kube import EventRecorder
from gpuloom.kube.podevents import record
from gpuloom.scheduler.clocks import Clocks
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

PERIOD_S = 10.0
"""So long nothing new is told of a pod that was told of."""
LOOK_S = 1.0
MOST_REMEMBERED = 4096
REASON = "FilteringFailed"


@dataclass(slots=True)
class _LastEvent:
    """When the last event about a pod was recorded (monotonic seconds), and what has been said of the pod since."""

    at: float
    later: tuple[Pod, Sequence[str]] | None = None


@dataclass(slots=True)
class RefusedPodEvents:
    """Records why pods fit nowhere; of each pod every ``period_s`` at most, always if that is 0."""

    recorder: EventRecorder
    clocks: Clocks
    period_s: float = PERIOD_S
    _last: FifoDict[str, _LastEvent] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))

    def tell(self, pod: Pod, messages: Sequence[str], *, is_followed: bool = False) -> None:
        """Take why a pod was refused; where a call about more nodes follows at once, that one's answer counts."""
        uid, now = pod.metadata.uid, self.clocks.monotonic()
        last = self._last.get(uid)
        if last is not None and now - last.at < self.period_s:
            last.later = pod, messages
        elif is_followed and self.period_s:
            self._last[uid] = _LastEvent(now - self.period_s + LOOK_S, (pod, messages))
        else:
            self._last[uid] = _LastEvent(now)
            for message in messages:
                record(self.recorder, pod, "Warning", REASON, message)

    def drop(self, uid: str) -> None:
        """Take that a pod waits no more."""
        self._last.pop(uid, None)

    async def run(self) -> None:
        """Tell what was held back, when its time has come, until cancelled."""
        await self.clocks.every(LOOK_S, self.tell_due)

    def tell_due(self) -> None:
        """Tell the newest of every pod that was told of long enough ago, and forget those of which there is nothing."""
        now = self.clocks.monotonic()
        for uid, last in [(uid, last) for uid, last in self._last.items() if now - last.at >= self.period_s]:
            del self._last[uid]
            if last.later is not None:
                self.tell(*last.later)


def asks_nominated_alone(pod: Pod, names: NodeNames) -> bool:
    """Tell whether a call offers the pod's nominated node alone: one with all nodes follows where that refuses."""
    nominated = pod.status.nominated_node_name
    return bool(nominated) and len(names) == 1 and names.has(nominated)
