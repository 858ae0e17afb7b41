"""The preempt call: kube-scheduler is about to evict pods for CPU or memory, and asks whether that helps (binding 11).

It knows nothing of cards, so it would evict where they never fit. It is told only the nodes on which the pod's cards
fit when its victims have left; who must leave for the cards as well is added, where room may be made at all.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace

from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.preemption.attempts import PreemptionAttempts
from gpuloom.scheduler.preemption.plan_finder import PlanFinder
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.scheduler.watch.budgets import BudgetHandler
from gpuloom.wire.objects import Pod
from gpuloom.wire.preemption import NodeVictims, PreemptionArgs


class PreemptError(Exception):
    """Nothing can be said; the message tells why. kube-scheduler evicts nobody then, and tries again later."""


@dataclass(frozen=True, slots=True)
class PreemptVerb:
    """Answers kube-scheduler before it evicts anybody for a pod with cards."""

    state: SchedulerState
    attempts: PreemptionAttempts
    finder: PlanFinder
    budgets: BudgetHandler

    async def preempt(self, args: PreemptionArgs) -> Mapping[str, NodeVictims]:
        """Return the nodes on which the pod fits, and all who have to leave each of them.

        Raises PreemptError.
        """
        pod = args.pod
        if pod is None:
            raise PreemptError("extender args missing pod")
        self._check()
        try:
            demands = self.state.settings.read_demands(pod)
        except PolicyError as error:
            raise PreemptError(f"pod {pod.full_name}: {error}") from error
        if not demands:
            return args.victims
        kept = self._find_kept(pod)
        going = {node: one.uids for node, one in args.victims.items() if node not in kept and self._is_known(node)}
        planner = PreemptionPlanner(
            self.state.pod_scheduler,
            self._look_up,
            self.state.shown.budgets.allowed,
            self.finder.strict,
            self.finder.find_leaving(),
        )
        preemptor, time_slice = Preemptor(demands, pod.priority), TimeSlice()
        plans = await time_slice.finish(planner.plan_beside(preemptor, going))
        needed = await time_slice.finish(self._keep_needed(preemptor, plans))
        self._check()
        return self._answer(pod, args.victims, needed)

    def _answer(
        self, pod: Pod, victims: Mapping[str, NodeVictims], plans: Iterable[PreemptionPlan]
    ) -> Mapping[str, NodeVictims]:
        """Add who leaves for the cards to who leaves anyway; no node for a pod for which room is being made already."""
        uid = pod.metadata.uid
        if self.state.nominations.find(uid) is not None:
            return {}
        # Room may have been made for others while it was planned.
        kept = self._find_kept(pod)
        current = [plan for plan in plans if plan.node not in kept]
        joined = {plan.node: self._join(victims[plan.node], plan) for plan in current}
        if joined:
            # kube-scheduler makes room now.
            self.attempts.drop(uid)
            if self.attempts.is_on:
                who_leaves = {node: frozenset(one.uids) for node, one in joined.items()}
                self.state.promised.note(uid, pod.priority, who_leaves, self.finder.clocks.monotonic())
        return joined

    def _find_kept(self, pod: Pod) -> frozenset[str]:
        """Return where room is made, or may be about to be, for pods that go before this one."""
        uid, priority, now = pod.metadata.uid, pod.priority, self.finder.clocks.monotonic()
        promised = self.state.promised.find_promised_before(uid, priority, now)
        return promised | self.state.nominations.nodes_kept_from(uid, priority)

    def _join(self, theirs: NodeVictims, plan: PreemptionPlan) -> NodeVictims:
        """Return all victims on a node; kube-scheduler takes the first for the most important."""
        ours = {one.uid: one.priority for one in plan.victims}
        on_node = self.state.shown.hosts.on(plan.node).pods
        known = {uid: on_node[uid].priority for uid in theirs.uids if uid in on_node}
        uids = sorted((*theirs.uids, *ours), key=lambda uid: ours.get(uid, known.get(uid, 0)), reverse=True)
        return NodeVictims(tuple(uids), theirs.violations + plan.broken)

    def _look_up(self, held: Reservation) -> PotentialVictim:
        """Return what is known of a pod that holds cards: kube-scheduler can evict only pods that it knows as bound."""
        one = self.finder.look_up(held)
        has_started = held.status is ReservationStatus.CONFIRMED
        may_add = self.attempts.is_on and self.budgets.is_listed
        return replace(one, may_leave=one.may_leave and has_started and may_add)

    def _keep_needed(
        self, preemptor: Preemptor, plans: Iterable[PreemptionPlan]
    ) -> Generator[None, None, list[PreemptionPlan]]:
        """Return those plans by which the pod still fits and needs all victims, in steps: making them took a while."""
        needed: list[PreemptionPlan] = []
        for plan in plans:
            yield
            leaving = self.finder.find_leaving()
            stay = leaving.isdisjoint(one.uid for one in plan.victims)
            if stay and self.finder.is_needed(preemptor, plan, leaving):
                needed.append(plan)
        return needed

    def _is_known(self, node: str) -> bool:
        return node in self.state.shown.nodes and self.state.cluster.has(node)

    def _check(self) -> None:
        if objection := self.state.charge.objection:
            raise PreemptError(objection)
