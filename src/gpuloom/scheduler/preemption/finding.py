"""Finding node and victims for a refused pod, in time slices; or why nobody is evicted for it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.planning.preemption.checking import still_holds
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
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
    index    of the least important on each card
    """

    state: SchedulerState
    refused: RefusedEvictions
    evicted: Collection[str]
    spared: frozenset[str]
    strict: bool
    index: LowestPriorities = field(default_factory=LowestPriorities)

    async def find(self, attempt: PreemptionAttempt) -> PreemptionPlan | Dropped:
        """Find who has to leave which node; what is returned holds as long as the caller does not await."""
        pod = self.state.pods.get(attempt.uid)
        if not isinstance(pod, HostPod) or not self._is_as_shown(attempt, pod) or not self.state.hosts.is_complete:
            return Dropped.NOT_SEEN
        time_slice, host_demand = TimeSlice(), read_host_demand(pod, self.state.hosts.ignored)
        if await self._has_room(attempt, host_demand, time_slice):
            return Dropped.ROOM
        plan = await self._plan(attempt, time_slice)
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

    async def _plan(self, attempt: PreemptionAttempt, time_slice: TimeSlice) -> PreemptionPlan | None:
        kept, nodes = self._kept_nodes(attempt), self.state.nodes
        candidates = [name for name in attempt.names.all() if name in nodes and name not in kept]
        planner = PreemptionPlanner(
            self.state.pod_scheduler, self.look_up, {}, self.strict, self._find_leaving(), self.index
        )
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
        is_open = plan.node in state.nodes and plan.node not in self._kept_nodes(attempt)
        leaving = self._find_leaving()
        may_leave = all(self.look_up(one.reservation) == one and one.uid not in leaving for one in plan.victims)
        if not (is_open and may_leave and {one.uid for one in plan.leaving} <= leaving):
            return Dropped.CHANGED
        if refuse_host(state.nodes[plan.node], state.hosts.on(plan.node), host_demand):
            return Dropped.CHANGED
        if not still_holds(state.pod_scheduler, preemptor, plan):
            return Dropped.CHANGED
        return plan

    def look_up(self, held: Reservation) -> PotentialVictim:
        """Return what is known of a pod that holds cards."""
        return PotentialVictim(
            held,
            budgets=(_FORBIDDEN,) if held.uid in self.refused else (),
            may_leave=held.namespace not in self.spared and self._can_be_evicted(held.uid),
        )

    def _find_leaving(self) -> frozenset[str]:
        """Return the pods that end already, those too that were asked and not seen to end yet."""
        ledger = self.state.cluster.ledger
        asked = (uid for uid in self.evicted if ledger.find(uid) is not None)
        return frozenset((*self.state.terminating, *asked))

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

    def _kept_nodes(self, attempt: PreemptionAttempt) -> frozenset[str]:
        """Return where room is being made for pods at least as important: one plan a node at a time."""
        return frozenset(one.node for one in self.state.nominations.that_bind(attempt.uid, attempt.priority))
