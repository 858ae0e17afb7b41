"""Why a nomination is over: what became of its node, its room, and of those who were to leave for it."""

from dataclasses import dataclass

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.engine.state.nominations import Nomination
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.preemption.evicting import Evictor
from gpuloom.scheduler.preemption.nominating import LIMIT_S, UNCLAIMED_S
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod


@dataclass(frozen=True, slots=True)
class NominationEnds:
    """Tells of nominations that no call and no watch has ended whether they are over."""

    state: SchedulerState
    evictor: Evictor
    clocks: Clocks

    def find_end(self, nomination: Nomination, *, is_evicting: bool) -> str:
        """Say why a nomination is over, empty when it is not; its victims may still be being asked."""
        state = self.state
        if self.clocks.unix - nomination.since > LIMIT_S:
            return "expired"
        if state.cluster.ledger.find(nomination.uid) is not None:
            # Its Filter has given it a node, and Bind is to come.
            return ""
        node, pod = state.shown.nodes.get(nomination.node), state.shown.pods.get(nomination.uid)
        if node is None:
            return "node"
        if isinstance(pod, HostPod):
            demand = read_host_demand(pod, state.shown.hosts.ignored)
            if refuse_host(node, self._imagine_usage(nomination), demand):
                return "node"
        if not state.decider.would_fit(nomination):
            return "no_room"
        return self._find_neglect(nomination, is_evicting=is_evicting)

    def waits_behind(self, nomination: Nomination) -> bool:
        """Tell whether others go before a pod on its node, or unbound ones that are more important hold cards there."""
        node, pods = nomination.node, self.state.shown.pods
        ahead = self.state.nominations.that_bind(nomination.uid, nomination.priority)
        above = (one.uid for one in self.state.cluster.ledger.on_node(node) if one.priority > nomination.priority)
        return any(one.node == node for one in ahead) or any(
            uid in pods and not pods[uid].spec.node_name for uid in above
        )

    def has_anyone_left(self, nomination: Nomination) -> bool:
        """Tell whether one who was to leave for a pod is gone, or was asked to; an answer may be on its way."""
        staying = self._find_unasked(nomination) - self.evictor.unanswered.keys()
        # Whom an earlier leader asked is not known.
        return not nomination.victims or staying != nomination.victims

    def _find_neglect(self, nomination: Nomination, *, is_evicting: bool) -> str:
        """Say why a nomination waits for what nobody does any more, empty where somebody may."""
        # Asking stops while the pod has room; kube-scheduler asks its own victims within seconds.
        is_over = not is_evicting and self.clocks.unix - nomination.since > UNCLAIMED_S
        if is_over and self._find_unasked(nomination):
            return "unasked"
        return "unclaimed" if self._is_unclaimed(nomination) else ""

    def _is_unclaimed(self, nomination: Nomination) -> bool:
        """Tell whether a pod's room has been free for a while, and no Filter of the pod has come since."""
        uid, now, since = nomination.uid, self.clocks.monotonic(), self.state.nominations.unclaimed_since
        if self._has_own_room(nomination):
            return now - since.setdefault(uid, now) > UNCLAIMED_S
        since.pop(uid, None)
        return False

    def _has_own_room(self, nomination: Nomination) -> bool:
        """Tell whether a pod's node takes it now, and all have left that are to leave it."""
        if not nomination.victims.isdisjoint(self.state.shown.hosts.on(nomination.node).pods):
            return False
        return self.state.decider.takes(nomination.demands, nomination.node, nomination.priority)

    def _imagine_usage(self, nomination: Nomination) -> NodeUsage:
        """Return what pods take of a node beside cards once those have left that are to leave."""
        usage = self.state.shown.hosts.on(nomination.node)
        left = nomination.victims & usage.pods.keys()
        if left:
            usage = usage.copy()
            for uid in left:
                usage.drop(uid)
        return usage

    def _find_unasked(self, nomination: Nomination) -> frozenset[str]:
        """Return who is to leave for a pod, is on its node and was not asked yet."""
        on_node = {held.uid for held in self.state.cluster.ledger.on_node(nomination.node)}
        staying = (uid for uid in nomination.victims & on_node if not self.state.shown.is_terminating(uid))
        return frozenset(uid for uid in staying if uid not in self.evictor.evicted)
