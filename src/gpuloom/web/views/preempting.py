"""What preemption would do for a pod: whom it would evict on which node, or why nobody."""

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.explanation.rule_matrix import make_rule_matrix
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim, is_too_young
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.budgets import Budgets
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import UNBOUNDED
from gpuloom.scheduler.durations import format_seconds
from gpuloom.web.views.ended import tell_end
from gpuloom.web.views.hosts import find_barred, judge_hosts
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.standing import tell_usage
from gpuloom.web.views.values import HeldShare, PreemptionView, VictimView
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_unix_time

NOT_ASKED = "PodDisruptionBudgets: a snapshot or recording tells none"
_NOT_ANSWERED = "PodDisruptionBudgets: the API server could not be asked"
_MOST_NAMES = 10


@dataclass(slots=True)
class VictimFacts:
    """What was found out of those whom a plan would evict, beside their reservations.

    known   by UID: which budgets protect the pod, and whether it may be evicted at all
    namespaces  whose budgets were read
    not_looked_at  what could not be found out, and why; ``names_pods``: it may name some of them
    """

    budgets: Budgets = field(default_factory=Budgets)
    known: dict[str, tuple[tuple[str, ...], bool]] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    not_looked_at: str = ""
    names_pods: bool = False

    def look_up(self, held: Reservation, *, may_leave: bool) -> PotentialVictim:
        """Say what is known of a pod; one that nobody asked about is taken to have no budget."""
        budgets, can_leave = self.known.get(held.uid, ((), True))
        return PotentialVictim(held, budgets, may_leave and can_leave)


@dataclass(frozen=True, slots=True)
class Prospect:
    """A plan, or why there is none.

    later  the plan there would be if all had had their cards for long enough, where that alone stands in the way
    """

    plan: PreemptionPlan | None = None
    why: str = ""
    later: PreemptionPlan | None = None

    @property
    def victims(self) -> tuple[PotentialVictim, ...]:
        """Those who would be evicted, now or later."""
        plan = self.plan or self.later
        return plan.victims if plan else ()


def find_prospect(source: Source, pod: Pod, facts: VictimFacts) -> Generator[None, None, Prospect]:
    """Plan in steps whom to evict for a pod as of now; nothing is evicted."""
    if objection := _find_objection(source, pod):
        return Prospect(why=objection)
    hosts = yield from judge_hosts(source, pod)
    return (yield from plan_on(source, pod, find_barred(source, pod, hosts), facts))


def plan_on(source: Source, pod: Pod, barred: Collection[str], facts: VictimFacts) -> Generator[None, None, Prospect]:
    """Plan in steps whom to evict for a pod that needs cards, where kube-scheduler does not bar it.

    Where room is being made for a pod that is at least as important, nobody is evicted for this one.
    """
    state, settings = source.state, source.state.settings
    kept = state.nominations.nodes_kept_from(pod.metadata.uid, pod.priority)
    nodes = [name for name in source.node_names() if name not in barred and state.cluster.has(name)]
    nodes = [name for name in nodes if name not in kept]
    demands = state.settings.read_demands(pod)
    for name in sorted(kept - set(barred)):
        yield
        if state.cluster.has(name) and source.decider.wait_beside(demands, name, pod.priority) is not None:
            return Prospect(why=f"it fits on {name} beside those for whom room is being made there")
    if not nodes and kept:
        return Prospect(why="room is being made for others on all nodes that it is offered")
    if not nodes:
        return Prospect(why="kube-scheduler offers no node with cards for it (see gpuloom explain)")
    preemptor, min_age_s = Preemptor(demands, pod.priority), settings.preemption_min_age_s
    if (plan := (yield from _plan_among(source, preemptor, nodes, facts, min_age_s))) is not None:
        return Prospect(plan)
    if min_age_s and (later := (yield from _plan_among(source, preemptor, nodes, facts, 0))) is not None:
        return Prospect(why=_tell_too_young(min_age_s), later=later)
    return Prospect(why=(yield from _tell_why_not(source, demands, pod.priority, nodes)))


def _plan_among(
    source: Source, preemptor: Preemptor, nodes: Sequence[str], facts: VictimFacts, min_age_s: float
) -> Generator[None, None, PreemptionPlan | None]:
    """Plan in steps, where those may leave who have had their cards for so many seconds."""
    settings, unix_s = source.state.settings, source.parts.clocks.unix
    leaving, ending = source.state.shown.find_soon_gone(source.parts.clocks.monotonic()), source.state.shown.terminating
    spared, strict = settings.spared_namespaces, settings.preemption_budgets == "strict"

    def look_up(held: Reservation) -> PotentialVictim:
        may_leave = held.namespace not in spared and held.uid not in ending
        may_leave = may_leave and not is_too_young(held, min_age_s, unix_s)
        return facts.look_up(held, may_leave=may_leave)

    allowed, index = facts.budgets.allowed, source.priorities
    planner = PreemptionPlanner(source.pod_scheduler, look_up, allowed, strict, leaving, index)
    return (yield from planner.plan(preemptor, nodes))


def _tell_too_young(min_age_s: float) -> str:
    age = format_seconds(min_age_s)
    return f"some who would have to leave got their cards less than {age} ago (--preemption-min-age)"


def _find_objection(source: Source, pod: Pod) -> str:
    """Say why nobody is ever evicted for such a pod, nothing if somebody may be."""
    if ended := tell_end(pod):
        return f"it {ended}"
    held = source.state.cluster.ledger.find(pod.metadata.uid)
    if held is not None or pod.spec.node_name:
        return f"it has its node already, {held.node if held is not None else pod.spec.node_name}"
    nominated = source.state.nominations.find(pod.metadata.uid)
    if nominated is not None and nominated.is_asked:
        return f"room is being made for it on {nominated.node} already"
    if not source.state.settings.asks_for_cards(pod):
        return "it asks for no card: kube-scheduler places it alone"
    try:
        source.state.settings.read_demands(pod)
    except PolicyError as error:
        return f"it cannot be placed: {error}"
    return _say_why_never(pod)


def _say_why_never(pod: Pod) -> str:
    """Say why a pod itself rules out that anybody is evicted for it, nothing if it does not."""
    if not pod.may_preempt:
        return "its preemptionPolicy is Never"
    return f"it starts together with the group {pod.own_group}" if pod.own_group else ""


def _tell_why_not(source: Source, demands: Demands, priority: int, nodes: Sequence[str]) -> Generator[None, None, str]:
    """Say why no eviction helps: because of the cards, of who is on them, or of both."""
    fit_empty, lowest = set(nodes), []
    for word, demand in demands.items():
        scheduler = source.pod_scheduler.by_vendor[word]
        priorities = yield from source.priorities.catch_up(source.state.cluster, word)
        table = scheduler.state.table
        matrix = make_rule_matrix(scheduler, table, demand, demand.placed_first, UNBOUNDED)
        enough = np.flatnonzero(matrix.count(matrix.would_do_empty()) >= matrix.needs())
        fit_empty.intersection_update([table.names[position] for position in enough.tolist()])
        lowest.append(int(priorities.min(initial=priority)))
        yield
    if not fit_empty:
        return "no node's cards would do for it even if nobody were on them"
    if min(lowest) >= priority:
        return f"nobody who holds such cards has a lower priority than its own, {priority}"
    return (
        f"on no node would it have room even if all were gone who may be evicted for it, of a priority below {priority}"
    )


def view_prospect(source: Source, viewer: Viewer, pod: Pod, prospect: Prospect, facts: VictimFacts) -> PreemptionView:
    """Show it to somebody; pods that they may not see have no names."""
    plan, name = prospect.plan, viewer.name(pod.namespace, pod.name)
    not_looked_at = _tell_not_looked_at(viewer, prospect, facts)
    if plan is None:
        headline = f"nobody would be evicted: {prospect.why}"
        # Little is kept of a bound pod itself.
        held = source.state.cluster.ledger.find(pod.metadata.uid)
        priority = pod.priority if held is None else held.priority
        return PreemptionView(pod=name, priority=priority, headline=headline, not_looked_at=not_looked_at)
    leaving = tuple(viewer.name(one.reservation.namespace, one.reservation.name) for one in plan.leaving)
    return PreemptionView(
        pod=name,
        priority=pod.priority,
        headline=_tell_plan(plan),
        node=plan.node,
        victims=tuple(_view_victim(source, viewer, one) for one in plan.victims),
        leaving=leaving,
        broken=plan.broken,
        not_looked_at=not_looked_at,
    )


def _tell_not_looked_at(viewer: Viewer, prospect: Prospect, facts: VictimFacts) -> str:
    """Say what could not be found out; why, only to who may see all whom that may name."""
    if not prospect.victims:
        return ""
    sees_all = all(viewer.sees(one.reservation.namespace) for one in prospect.victims)
    return _NOT_ANSWERED if facts.names_pods and not sees_all else facts.not_looked_at


def _tell_plan(plan: PreemptionPlan) -> str:
    if plan.victims:
        count = len(plan.victims)
        breaks = f", {plan.broken} of them against a PodDisruptionBudget" if plan.broken else ""
        pods = "this pod were" if count == 1 else f"these {count} pods were"
        return f"would have room on {plan.node} if {pods} evicted{breaks}"
    if plan.leaving:
        return f"nobody would be evicted: it has room on {plan.node} once pods are gone that end already"
    return f"nobody would be evicted: it has room on {plan.node}"


def _view_victim(source: Source, viewer: Viewer, one: PotentialVictim) -> VictimView:
    held = one.reservation
    return VictimView(
        pod=viewer.name(held.namespace, held.name),
        priority=one.priority,
        started_at=encode_unix_time(one.started_at),
        held=tuple(_each_share(source, held)),
        budgets=one.budgets if viewer.sees(held.namespace) else (),
    )


def _each_share(source: Source, held: Reservation) -> Generator[HeldShare, None, None]:
    for word, usages in held.usage_by_vendor().items():
        for uuid, usage in usages.items():
            told = tell_usage(source, held, word, uuid, usage)
            yield HeldShare(uuid=uuid, memory_mib=told.memory_mib, cores=told.cores)


def tell_victims(viewer: Viewer, pod: Pod, plan: PreemptionPlan, why_not: str) -> str:
    """Say in one line who would have to leave by priority, and why nobody evicts them."""
    held = [one.reservation for one in plan.victims]
    named = ", ".join(
        f"{viewer.name(one.namespace, one.name).full_name} (priority {one.priority})" for one in held[:_MOST_NAMES]
    )
    more = f" and {len(held) - _MOST_NAMES} more" if len(held) > _MOST_NAMES else ""
    reason = _say_why_never(pod) or why_not
    return f"would fit on {plan.node} if these leave: {named}{more}; not evicted because {reason}"
