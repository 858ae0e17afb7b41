"""Events about cards that are closed because of what cannot be read: on the pod, for its owner, and on its node."""

from dataclasses import dataclass, field

from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.kube import EventRecorder
from gpuloom.kube.recorder import Subject
from gpuloom.model.reasons import Reason
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import Charge

PERIOD_S = 5.0
MOST_AT_ONCE = 20
"""So many are told of in one round: there may be very many after a change of versions, and none of them is urgent."""
_REASON = Reason.CARD_UNACCOUNTED.word


@dataclass(slots=True)
class ClosedCardEvents:
    """Records events about every closing once, as long as it stands; only the replica in charge does."""

    cluster: ClusterState
    charge: Charge
    recorder: EventRecorder
    clocks: Clocks
    _reported: dict[str, Closing] = field(default_factory=dict)

    async def run(self) -> None:
        """Record until cancelled."""
        await self.clocks.every(PERIOD_S, self.record_new)

    def record_new(self) -> None:
        """Record what is new since the last time."""
        if not self.charge.is_ours:
            return
        closings = self.cluster.closings
        self._reported = {holder: one for holder, one in self._reported.items() if closings.find(holder) == one}
        new = [one for one in self.cluster.closings_in_effect() if one.holder not in self._reported]
        for closing in new[:MOST_AT_ONCE]:
            self._reported[closing.holder] = closing
            self._record(closing)

    def _record(self, closing: Closing) -> None:
        whose = f"cards of {', '.join(sorted(closing.cards))}" if closing.cards else "cards"
        until = "take no new pods until this pod is gone: delete it, or create it anew"
        pod = Subject("Pod", closing.namespace, closing.name, closing.holder)
        self.recorder.record(pod, "Warning", _REASON, f"{whose} of node {closing.node} {until}; {closing.cause}")
        node = Subject("Node", "", closing.node, closing.node)
        # Whoever may read events of nodes need not be allowed to read this pod: they stand in the namespace default.
        until = f"take no new pods until the pod with UID {closing.holder} is gone; its event says why"
        self.recorder.record(node, "Warning", _REASON, f"{whose} {until}")
