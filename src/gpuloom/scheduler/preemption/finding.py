"""Finding node and victims for a refused pod, in time slices; or why nobody is evicted for it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.planning.preemption.checking import still_holds
from gpuloom.engine.planning.preemption.plan import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.preemption.attempts import PreemptionAttempt
from gpuloom.scheduler.preemption.refused import RefusedEvictions
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.hostpods import HostPod

_NODES_A_STEP = 64
_FORBIDDEN = "forbidden"
"""Stands for the budgets of a pod whose eviction was refused: which they are, the API server does not tell."""


class Dropped(Enum):
    """Why nobody is evicted for a pod."""

    OUTDATED = "outdated"
    NOT_SEEN = "not_seen"
    ROOM = "room"
    NO_VICTIMS = "no_victims"
    LEAVING = "leaving"
    BUDGET = "budget"
    FORBIDDEN = "forbidden"
    CHANGED = "changed"
    UNWRITTEN = "unwritten"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanFinder:
    """Finds plans.

    refused  pods whose eviction a budget has just forbidden
    evicted  UIDs of pods that were asked to leave, until the watch shows it
    spared   namespaces whose pods never leave for others
    strict   whether pods that a budget protects never do
    """

    state: SchedulerState
    refused: RefusedEvictions
    evicted: Collection[str]
    spared: frozenset[str]
    strict: bool

    async def find(self, attempt: PreemptionAttempt) -> PreemptionPlan | Dropped:
        """Find who has to leave which node; what is returned holds as long as the caller does not await."""
        pod = self.state.pods.get(attempt.uid)
        if not isinstance(pod, HostPod) or not self._is_as_shown(attempt, pod) or not self.state.hosts.is_complete:
            return Dropped.NOT_SEEN
        time_slice, host_demand = TimeSlice(), read_host_demand(pod, self.state.hosts.ignored)
        if await self._has_room(attempt, host_demand, time_slice):
            return Dropped.ROOM
        candidates = []
        for some in self._candidates(attempt):
            candidates += some
            await time_slice.yield_if_over()
        plan = await self._plan(attempt, candidates, time_slice)
        if plan is None:
            return Dropped.BUDGET if self.refused else Dropped.NO_VICTIMS
        return self._confirm(attempt, plan, host_demand)

    def _is_as_shown(self, attempt: PreemptionAttempt, pod: HostPod) -> bool:
        """Whether the API server shows the pod as the call did: nobody leaves because a call alone says so."""
        if pod.spec.node_name or not pod.may_preempt or pod.priority != attempt.priority:
            return False
        try:
            return self.state.read_demands(pod) == attempt.demands
        except PolicyError:
            return False

    async def _plan(
        self, attempt: PreemptionAttempt, candidates: Sequence[str], time_slice: TimeSlice
    ) -> PreemptionPlan | None:
        if not candidates:
            return None
        planner = PreemptionPlanner(self.state.pod_scheduler, self.look_up, {}, self.strict)
        steps = planner.plan(Preemptor(attempt.demands, attempt.priority), candidates)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                plan: PreemptionPlan | None = end.value
                return plan
            await time_slice.yield_if_over()

    def _confirm(
        self, attempt: PreemptionAttempt, plan: PreemptionPlan, host_demand: HostDemand
    ) -> PreemptionPlan | Dropped:
        """Ask again, in one turn of the loop: planning took a while."""
        state, preemptor = self.state, Preemptor(attempt.demands, attempt.priority)
        known = [self.look_up(one.reservation) for one in (*plan.victims, *plan.leaving)]
        is_open = plan.node in state.nodes and plan.node not in self._kept_nodes(attempt)
        same = is_open and known == [*plan.victims, *plan.leaving]
        if not same or refuse_host(state.nodes[plan.node], state.hosts.on(plan.node), host_demand):
            return Dropped.CHANGED
        if not still_holds(state.pod_scheduler, preemptor, plan):
            return Dropped.CHANGED
        return plan

    def look_up(self, held: Reservation) -> PotentialVictim:
        """Return what is known of a pod that holds cards."""
        leaving = self.state.is_leaving(held.uid) or held.uid in self.evicted
        return PotentialVictim(
            held,
            held.priority,
            float(held.started_at),
            budgets=(_FORBIDDEN,) if held.uid in self.refused else (),
            may_leave=held.namespace not in self.spared and self._can_be_evicted(held.uid),
            is_leaving=leaving,
        )

    def _can_be_evicted(self, uid: str) -> bool:
        """Whether the API server knows the pod, and deleting it there ends it: static pods are their kubelet's."""
        known = self.state.pods.get(uid)
        return known is not None and not known.is_static

    async def _has_room(self, attempt: PreemptionAttempt, host_demand: HostDemand, time_slice: TimeSlice) -> bool:
        """Tell whether a node takes the pod as it is: kube-scheduler has perhaps not offered it yet.

        Where the pod depends on what only kube-scheduler looks at, a node that it did not offer says nothing.
        """
        state = self.state
        for _ in state.pod_scheduler.place_ahead(attempt.demands):
            await time_slice.yield_if_over()
        if not state.decider.has_capacity(attempt.demands, attempt.priority):
            return False
        decision = state.pod_scheduler.decide(attempt.demands, tuple(state.cluster.nodes))
        for _ in decision.complete():
            await time_slice.yield_if_over()
        kept = self._kept_nodes(attempt)
        offered = set(attempt.names.all()) if host_demand.unjudged else None
        for name, _ in decision.fitting.worst_first():
            await time_slice.yield_if_over()
            node = state.nodes.get(name)
            if node is None or name in kept or (offered is not None and name not in offered):
                continue
            if not (explain_unschedulable(node) or refuse_host(node, state.hosts.on(name), host_demand)):
                return True
        return False

    def _candidates(self, attempt: PreemptionAttempt) -> Iterator[list[str]]:
        """Give the offered nodes on which somebody could leave, a few at a time."""
        names, kept = attempt.names.all(), self._kept_nodes(attempt)
        for first in range(0, len(names), _NODES_A_STEP):
            yield [
                name
                for name in names[first : first + _NODES_A_STEP]
                if name not in kept and name in self.state.nodes and self._has_lower(name, attempt.priority)
            ]

    def _kept_nodes(self, attempt: PreemptionAttempt) -> frozenset[str]:
        """Return where room is being made for pods at least as important: one plan a node at a time."""
        return frozenset(one.node for one in self.state.nominations.that_bind(attempt.uid, attempt.priority))

    def _has_lower(self, name: str, priority: int) -> bool:
        held = self.state.cluster.ledger.on_node(name)
        return any(one.priority < priority or self.look_up(one).is_leaving for one in held)
