"""Filter: choose node and cards, reserve them, answer; nothing is written (scheduler 4, binding 1)."""

from dataclasses import dataclass

from gpuloom.engine.decision import Decision, decide
from gpuloom.engine.demand import Demand
from gpuloom.engine.events import NO_REQUEST, describe_failure, describe_success
from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.kube import EventRecorder
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.podevents import record
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.extender import FilterArgs, FilterResult
from gpuloom.wire.objects import Pod


@dataclass(frozen=True, slots=True)
class Filterer:
    """Says where a pod may run. It never awaits, so two calls never see the same free card."""

    state: SchedulerState
    recorder: EventRecorder
    clocks: Clocks

    def filter(self, args: FilterArgs) -> FilterResult:
        """Answer one filter call; a pod that fits holds its cards from now on."""
        pod = args.pod
        if pod is None:
            return FilterResult(error="extender args missing pod")
        if args.nodes is not None:
            return FilterResult(error="whole Node objects are not supported: set nodeCacheCapable on the extender")
        if objection := self._find_objection(pod):
            return FilterResult(error=objection)
        demand = self.state.read_demand(pod)
        if not demand.wants_cards:
            record(self.recorder, pod, "Warning", "FilteringFailed", NO_REQUEST)
            return FilterResult(node_names=args.nodenames)
        return self._decide(pod, demand, tuple(dict.fromkeys(args.nodenames or ())))

    def _find_objection(self, pod: Pod) -> str:
        """Why no decision may be made for this pod now, empty when one may."""
        uid = pod.metadata.uid
        if uid in self.state.gone:
            return f"pod {pod.full_name} is deleted"
        if uid in self.state.binding:
            return f"bind of pod {pod.full_name} in progress"
        held = self.state.cluster.ledger.find(uid)
        if held is not None and held.standing is Standing.CONFIRMED:
            return f"pod {pod.full_name} is bound to node {held.node} already"
        return ""

    def _decide(self, pod: Pod, demand: Demand, candidates: tuple[str, ...]) -> FilterResult:
        self.state.cluster.forget(demand.uid)
        decision = decide(self.state.cluster.table, demand, candidates, self.state.rules)
        if decision.node is None:
            return self._refuse(pod, decision, candidates)
        self.state.refused.pop(demand.uid, None)
        self._reserve(demand, decision, decision.node)
        message = describe_success(decision, len(candidates))
        record(self.recorder, pod, "Normal", "FilteringSucceed", message)
        return FilterResult(node_names=[decision.node])

    def _refuse(self, pod: Pod, decision: Decision, candidates: tuple[str, ...]) -> FilterResult:
        self.state.refused.setdefault(pod.metadata.uid, pod)
        for message in describe_failure(decision.refusals, len(candidates)):
            record(self.recorder, pod, "Warning", "FilteringFailed", message)
        return FilterResult(failed_nodes={node: refusal.text for node, refusal in decision.refusals.items()})

    def _reserve(self, demand: Demand, decision: Decision, node: str) -> Reservation:
        return self.state.cluster.assume(
            Reservation(
                uid=demand.uid,
                namespace=demand.namespace,
                name=demand.name,
                node=node,
                shares={self.state.settings.profile.word: decision.shares},
                phases=demand.phases,
                standing=Standing.ASSUMED,
                since=self.clocks.monotonic(),
                decided_at=self.clocks.unix,
            )
        )
