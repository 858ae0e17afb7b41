"""Finding node and victims for a refused pod, in time slices; or why nobody is evicted for it."""

import asyncio
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.planning.preemption.checking import still_holds
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim, is_too_young, split_by_budget
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.hostfit import takes_beside_cards
from gpuloom.scheduler.preemption.attempts import PreemptionAttempt
from gpuloom.scheduler.preemption.refused import RefusedEvictions
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import SHORT_S, TimeSlice
from gpuloom.wire.hostpods import HostPod

_FORBIDDEN = "forbidden"
"""Stands for a budget that lets nobody go: of a pod whose eviction was refused just now, or that has several budgets,
which the Eviction API cannot count."""


class DropCause(Enum):
    """Why an attempt or a plan to make room for a pod comes to nothing: labels of a metric."""

    OUTDATED = "outdated"
    NOT_SEEN = "not_seen"
    ROOM = "room"
    NO_VICTIMS = "no_victims"
    LEAVING = "leaving"
    YOUNG = "young"
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
    clocks   for the age of those who may leave
    index    of the least important on each card
    """

    state: SchedulerState
    refused: RefusedEvictions
    evicted: Collection[str]
    spared: frozenset[str]
    strict: bool
    clocks: Clocks
    index: LowestPriorities = field(default_factory=LowestPriorities)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def prepare(self) -> None:
        """Read ahead, in time slices, what the next plan would have to: the first time all reservations."""
        async with self._turn:
            for profile in self.state.settings.catalog:
                await TimeSlice(SHORT_S).finish(self.index.catch_up(self.state.cluster, profile.word))

    async def find(self, attempt: PreemptionAttempt) -> PreemptionPlan | DropCause:
        """Find who has to leave which node; what is returned holds as long as the caller does not await."""
        host_demand = self._read_host_demand(attempt)
        if host_demand is None:
            return DropCause.NOT_SEEN
        time_slice = TimeSlice(SHORT_S)
        if (beside := await time_slice.finish(self._find_room_beside(attempt, host_demand))) is not None:
            return beside
        closed = await self._find_closed(attempt, host_demand, time_slice)
        if closed is None:
            return DropCause.ROOM
        undecided = self._find_undecided()
        plan = await self._plan(attempt, undecided, time_slice)
        if plan is None:
            return self._tell_why_none() if undecided.isdisjoint(attempt.names.all()) else DropCause.CHANGED
        # In steps first: what does not change meanwhile is known when all is asked in one turn.
        await time_slice.finish(self._find_room_beside(attempt, host_demand))
        await time_slice.pause()
        if plan.node in self._find_kept(attempt) | self._find_undecided():
            return DropCause.CHANGED
        leaving = self.find_leaving()
        return self._find_room(attempt, host_demand, closed) or self._confirm(attempt, plan, host_demand, leaving)

    async def find_left(self, attempt: PreemptionAttempt, plan: PreemptionPlan) -> PreemptionPlan | DropCause:
        """Find whom of a plan a pod that was nominated for it still needs to leave, or why it is not to go on.

        Some may have left meanwhile, some may only now be bound. Nobody is left where the node takes the pod.
        """
        host_demand, time_slice = self._read_host_demand(attempt), TimeSlice(SHORT_S)
        if host_demand is None:
            return DropCause.NOT_SEEN
        closed = await self._find_closed(attempt, host_demand, time_slice)
        beside = await time_slice.finish(self._find_room_beside(attempt, host_demand))
        await time_slice.pause()
        if plan.node not in self.state.shown.nodes:
            return DropCause.CHANGED
        if self.state.decider.takes(attempt.demands, plan.node, attempt.priority):
            return replace(plan, victims=())
        if closed is None:
            return DropCause.ROOM
        leaving = self.find_leaving()
        return beside or self._confirm(attempt, self._bring_up_to_date(plan, leaving), host_demand, leaving)

    def _read_host_demand(self, attempt: PreemptionAttempt) -> HostDemand | None:
        """Return what a pod that waits asks for beside cards; None where that is not known."""
        pod, hosts = self.state.shown.pods.get(attempt.uid), self.state.shown.hosts
        if not isinstance(pod, HostPod) or not self._is_as_shown(attempt, pod) or not hosts.is_complete:
            return None
        return read_host_demand(pod, hosts.ignored)

    def _is_as_shown(self, attempt: PreemptionAttempt, pod: HostPod) -> bool:
        """Whether the API server shows the pod as the call did, and it has no room: nobody leaves for a call alone."""
        if pod.spec.node_name or self.state.cluster.ledger.find(attempt.uid) is not None:
            return False
        if not pod.may_preempt or pod.priority != attempt.priority:
            return False
        try:
            return self.state.settings.read_demands(pod) == attempt.demands
        except PolicyError:
            return False

    async def _plan(
        self, attempt: PreemptionAttempt, undecided: frozenset[str], time_slice: TimeSlice
    ) -> PreemptionPlan | None:
        kept, nodes = self._find_kept(attempt) | undecided, self.state.shown.nodes
        candidates = [name for name in attempt.names.all() if name in nodes and name not in kept]
        planner = PreemptionPlanner(
            self.state.pod_scheduler,
            self.look_up,
            self.state.shown.budgets.allowed,
            self.strict,
            self.find_leaving(),
            self.index,
        )
        async with self._turn:
            return await time_slice.finish(planner.plan(Preemptor(attempt.demands, attempt.priority), candidates))

    def _confirm(
        self, attempt: PreemptionAttempt, plan: PreemptionPlan, host_demand: HostDemand, leaving: frozenset[str]
    ) -> PreemptionPlan | DropCause:
        """Ask again, in one turn of the loop, whether a pod still needs its node's victims: planning took a while."""
        state = self.state
        may_leave = all(self.look_up(one.reservation) == one and one.uid not in leaving for one in plan.victims)
        breaking, _ = split_by_budget(plan.victims, state.shown.budgets.allowed)
        may_leave = may_leave and {one.uid for one in breaking} <= plan.breaking
        is_known = plan.node in state.shown.nodes
        if not (is_known and may_leave and {one.uid for one in plan.leaving} <= leaving):
            return DropCause.CHANGED
        if refuse_host(state.shown.nodes[plan.node], state.shown.hosts.on(plan.node), host_demand):
            return DropCause.CHANGED
        is_needed = self.is_needed(Preemptor(attempt.demands, attempt.priority), plan, leaving)
        return plan if is_needed else DropCause.CHANGED

    def _find_room(
        self, attempt: PreemptionAttempt, host_demand: HostDemand, closed: frozenset[str]
    ) -> DropCause | None:
        """Say why nobody leaves for a pod, in one turn of the loop: meanwhile a node may have got room.

        closed  those that do not take it though their cards would do
        """
        if (beside := run_to_end(self._find_room_beside(attempt, host_demand))) is not None:
            return beside
        offered = frozenset(attempt.names.all())
        taking = run_to_end(self.state.pod_scheduler.find_taking(attempt.demands))
        return DropCause.ROOM if any(self._takes(name, host_demand, offered) for name in taking - closed) else None

    def _bring_up_to_date(self, plan: PreemptionPlan, leaving: frozenset[str]) -> PreemptionPlan:
        """Return a plan with what those of it hold now who are not gone; its victims that leave are counted on."""
        victims = self._find_current(plan.victims)
        newly = tuple(one for one in victims if one.uid in leaving)
        staying = tuple(one for one in victims if one.uid not in leaving)
        return replace(plan, victims=staying, leaving=(*self._find_current(plan.leaving), *newly))

    def _find_current(self, some: Iterable[PotentialVictim]) -> tuple[PotentialVictim, ...]:
        """Return those that hold cards yet, with what they hold now."""
        found = ((one, self.state.cluster.ledger.find(one.uid)) for one in some)
        return tuple(replace(one, reservation=held) for one, held in found if held is not None)

    def is_needed(self, preemptor: Preemptor, plan: PreemptionPlan, leaving: frozenset[str]) -> bool:
        """Tell whether a pod fits by a plan, and would not if any of its victims stayed.

        leaving  UIDs of all who leave by now: some of the plan's may be gone, and who leaves since shows on no cards
        """
        known = {one.uid for one in plan.leaving}
        freeing = self.state.pod_scheduler.find_freeing(preemptor.demands, leaving)
        there = {one.uid: one for one in (*self.state.cluster.ledger.on_node(plan.node), *freeing)}
        newly = [self.look_up(one) for uid, one in there.items() if uid in leaving and uid not in known]
        current = replace(plan, leaving=(*self._find_current(plan.leaving), *newly), seen=None if newly else plan.seen)
        return still_holds(self.state.pod_scheduler, preemptor, current)

    def look_up(self, held: Reservation) -> PotentialVictim:
        """Return what is known of a pod that holds cards."""
        budgets = self.state.shown.budgets.protecting(held.namespace, held.name, self._find_labels(held.uid))
        if held.uid in self.refused or len(budgets) > 1:
            budgets = (*budgets, _FORBIDDEN)
        return PotentialVictim(
            held,
            budgets=budgets,
            may_leave=held.namespace not in self.spared
            and self._can_be_evicted(held.uid)
            and not self._is_too_young(held),
        )

    def _find_labels(self, uid: str) -> Mapping[str, str]:
        """Return a pod's labels: those of bound ones are kept apart, because these are trimmed."""
        known = self.state.shown.pods.get(uid)
        return self.state.shown.victim_labels.get(uid, {} if known is None else known.labels)

    def _is_too_young(self, held: Reservation) -> bool:
        return is_too_young(held, self.state.settings.preemption_min_age_s, self.clocks.unix)

    def _tell_why_none(self) -> DropCause:
        """Say why there is no plan, as far as time may change that."""
        if self.refused or (self.strict and self.state.shown.budgets.allowed):
            return DropCause.BUDGET
        has_age = self.state.settings.preemption_min_age_s > 0
        return (
            DropCause.YOUNG
            if has_age and any(map(self._is_too_young, self.state.cluster.ledger))
            else DropCause.NO_VICTIMS
        )

    def find_leaving(self) -> frozenset[str]:
        """Return the pods that were evicted or are being deleted, and will be gone soon."""
        ledger, ending = self.state.cluster.ledger, self.state.shown.terminating
        asked = (uid for uid in self.evicted if uid not in ending and ledger.find(uid) is not None)
        return frozenset((*self.state.shown.find_soon_gone(self.clocks.monotonic()), *asked))

    def _waits_for_slow(self, node: str) -> bool:
        """Tell whether a pod on a node is being deleted so long that nobody is to wait for it."""
        on_node = {held.uid for held in self.state.cluster.ledger.on_node(node)}
        return not on_node.isdisjoint(
            self.state.shown.terminating.keys() - self.state.shown.find_soon_gone(self.clocks.monotonic())
        )

    def _can_be_evicted(self, uid: str) -> bool:
        """Whether the API server knows the pod, and deleting it there ends it.

        Static pods are their kubelet's, and one that is being deleted ends no sooner.
        """
        known = self.state.shown.pods.get(uid)
        return known is not None and not known.is_static and uid not in self.state.shown.terminating

    async def _find_closed(
        self, attempt: PreemptionAttempt, host_demand: HostDemand, time_slice: TimeSlice
    ) -> frozenset[str] | None:
        """Return the nodes whose cards would do and that do not take the pod all the same; None where one takes it.

        That kube-scheduler has not offered a node yet says nothing against it, unless the pod depends on what only
        kube-scheduler looks at.
        """
        closed, offered = set(self._find_kept(attempt)), frozenset(attempt.names.all())
        for name in await time_slice.finish(self.state.pod_scheduler.find_taking(attempt.demands)):
            await time_slice.yield_if_over()
            if name not in closed and self._takes(name, host_demand, offered):
                return None
            closed.add(name)
        return frozenset(closed)

    def _find_room_beside(
        self, attempt: PreemptionAttempt, host_demand: HostDemand
    ) -> Generator[None, None, DropCause | None]:
        """Say why nobody leaves for a pod: where room is being made for others, it fits beside them, now or then."""
        offered, decider = frozenset(attempt.names.all()), self.state.decider
        for node in sorted(self._find_kept(attempt)):
            yield
            if not (node in self.state.shown.nodes and self._takes(node, host_demand, offered)):
                continue
            yield from decider.bring_up(attempt.demands, node, attempt.priority)
            if decider.takes(attempt.demands, node, attempt.priority):
                return DropCause.ROOM
            if self._waits_for_slow(node):
                continue
            yield
            victims = decider.wait_beside(attempt.demands, node, attempt.priority)
            if victims is not None:
                # Who was not asked yet may still stay.
                return DropCause.LEAVING if victims <= self._find_gone_or_leaving(victims) else DropCause.CHANGED
        return None

    def _find_gone_or_leaving(self, uids: frozenset[str]) -> frozenset[str]:
        leaving = self.find_leaving()
        return frozenset(uid for uid in uids if uid in leaving or self.state.cluster.ledger.find(uid) is None)

    def _takes(self, name: str, host_demand: HostDemand, offered: frozenset[str]) -> bool:
        """Tell whether a node would take the pod, cards apart."""
        if host_demand.unjudged and name not in offered:
            return False
        return takes_beside_cards(self.state.shown, name, host_demand)

    def _find_kept(self, attempt: PreemptionAttempt) -> frozenset[str]:
        """Return where room is being made for pods that go before this one: one plan a node at a time."""
        return self.state.nominations.nodes_kept_from(attempt.uid, attempt.priority)

    def _find_undecided(self) -> frozenset[str]:
        """Return the nodes on which kube-scheduler may be about to evict."""
        return self.state.promised.find_undecided(self.clocks.monotonic())
