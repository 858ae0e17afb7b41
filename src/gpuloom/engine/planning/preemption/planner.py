"""Where to make room: the node whose victims cost least."""

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictimOf
from gpuloom.engine.planning.preemption.victim_priorities import NO_VICTIM, find_victim_priorities
from gpuloom.engine.planning.preemption.victims import (
    NO_COST,
    Cost,
    PreemptionPlan,
    Preemptor,
    VictimSearch,
    least_cost,
)
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import Headroom

MOST_CANDIDATES = 48
"""A plan is chosen among so many nodes where eviction helps: kube-scheduler looks at 100 or more, at any; here those
come first whose victims may be the least important."""

NODES_AT_ONCE = 16
"""Forking these takes a fifth of a millisecond."""
NEVER = 2**62
"""Later than anybody can have started."""


@dataclass(frozen=True, slots=True)
class PreemptionPlanner:
    """Looks for the node on which a pod of higher priority gets room at the least cost.

    allowed  how many pods each PodDisruptionBudget lets go now
    strict   whether plans that break a budget are none
    leaving  UIDs of leaving pods: their cards are counted on
    index    kept by who makes many plans
    """

    pod_scheduler: PodScheduler
    potential_victim_of: PotentialVictimOf
    allowed: Mapping[str, int]
    strict: bool = False
    leaving: Collection[str] = frozenset()
    index: LowestPriorities = field(default_factory=LowestPriorities)

    def plan(self, preemptor: Preemptor, nodes: Sequence[str]) -> Generator[None, None, PreemptionPlan | None]:
        """Choose node and victims for a pod that fits nowhere, in steps of few questions to few nodes' cards.

        nodes  those that take the pod but for its cards

        None when no eviction helps. The state is not changed. If it changes between two steps, the plan is right for
        the moment when its node was looked at: who acts on it asks again.
        """
        fitting = yield from self._find_fitting(preemptor, nodes)
        if fitting is not None:
            return PreemptionPlan(fitting, ())
        if freeing := self.pod_scheduler.find_freeing(preemptor.demands, self.leaving):
            fitting = yield from self._find_fitting(preemptor, nodes, self._free_quota(preemptor, freeing))
            if fitting is not None:
                return PreemptionPlan(fitting, (), tuple(map(self.potential_victim_of, freeing)))
        possible = yield from find_victim_priorities(self.pod_scheduler, preemptor, nodes, self.index, self.leaving)
        best: list[PreemptionPlan] = []
        forks: dict[str, PodScheduler] = {}
        found = 0
        for priority, least, nodes_at_once in self._in_batches(preemptor, possible):
            if best and (_beats(best[0], priority) or (found >= MOST_CANDIDATES and not best[0].broken)):
                break
            if _is_no_better(least, best):
                found += len(nodes_at_once)
                continue
            yield
            limit = best[0].cost if best else None
            search = self._search_on(nodes_at_once, preemptor, self.allowed, self.leaving)
            plans = yield from search.choose(nodes_at_once, limit)
            plans = [plan for plan in plans if not (self.strict and plan.broken)]
            found += len(plans)
            best = _cheapest([*best, *plans])
            forks = {plan.node: forks.get(plan.node, search.fork) for plan in best}
        yield
        return (yield from self._choose_by_node_policy(preemptor, best[:NODES_AT_ONCE], forks))

    def plan_beside(
        self, preemptor: Preemptor, going: Mapping[str, Collection[str]]
    ) -> Generator[None, None, list[PreemptionPlan]]:
        """Choose who has to leave nodes beside pods that are about to leave them for another reason, in steps.

        going  the UIDs of those by node; what budgets allow is theirs first

        Nodes where no eviction helps have no plan.
        """
        plans: list[PreemptionPlan] = []
        for nodes, allowed in self._in_groups(preemptor, going):
            leaving = frozenset(self.leaving).union(*(going[node] for node in nodes))
            plans += yield from self._search_on(nodes, preemptor, allowed, leaving).choose(nodes)
        return [plan for plan in plans if not (self.strict and plan.broken)]

    def _in_groups(
        self, preemptor: Preemptor, going: Mapping[str, Collection[str]]
    ) -> Iterator[tuple[Sequence[str], Mapping[str, int]]]:
        """Give the nodes that are asked at once, and what budgets allow when those that go there are gone."""
        alike: list[str] = []
        for node, uids in going.items():
            held = (self.pod_scheduler.cluster_state.ledger.find(uid) for uid in uids)
            budgets = Counter(name for one in held if one is not None for name in self.potential_victim_of(one).budgets)
            if budgets:
                yield [node], {name: count - budgets[name] for name, count in self.allowed.items()}
            else:
                alike.append(node)
        size = self._count_at_once(preemptor)
        for first in range(0, len(alike), size):
            yield alike[first : first + size], self.allowed

    def _find_fitting(
        self, preemptor: Preemptor, nodes: Sequence[str], headrooms: Mapping[str, Headroom] | None = None
    ) -> Generator[None, None, str | None]:
        """Return the node that takes the pod as it is, or as it is when quotas leave that; None if none does."""
        taking = yield from self.pod_scheduler.find_taking(preemptor.demands, headrooms)
        yield
        fitting = [name for name in nodes if name in taking] if taking else []
        decide = self.pod_scheduler.decide
        return decide(preemptor.demands, fitting, headrooms=headrooms).node if fitting else None

    def _free_quota(self, preemptor: Preemptor, freeing: Sequence[Reservation]) -> Mapping[str, Headroom]:
        """Return what quotas leave of each vendor's cards when some pods have left."""
        fork = self.pod_scheduler.fork((), [one.uid for one in freeing])
        for one in freeing:
            fork.cluster_state.forget(one.uid)
        return {word: fork.by_vendor[word].headroom(demand) for word, demand in preemptor.demands.items()}

    def _in_batches(
        self, preemptor: Preemptor, possible: Sequence[tuple[int, str]]
    ) -> Iterator[tuple[int, Cost, Sequence[str]]]:
        """Give the nodes that are asked at once, the lowest priority there and after them, and their least cost.

        Of so many as are looked at in any case, those come first that may cost least: mostly they are enough.
        """
        size = self._count_at_once(preemptor)
        for start in range(0, len(possible), MOST_CANDIDATES):
            some = possible[start : start + MOST_CANDIDATES]
            cheapest = sorted([(self._least_cost(priority, name), name) for priority, name in some], key=itemgetter(0))
            for first in range(0, len(cheapest), size):
                yield some[0][0], cheapest[first][0], [name for _, name in cheapest[first : first + size]]

    def _least_cost(self, priority: int, node: str) -> Cost:
        """Return what a plan costs at least on a node whose most important victim has at least a priority."""
        if priority == NO_VICTIM:
            return NO_COST
        held = self.pod_scheduler.cluster_state.ledger.on_node(node)
        return least_cost(priority, max((one.started_at for one in held if one.priority == priority), default=NEVER))

    def _count_at_once(self, preemptor: Preemptor) -> int:
        """Return how many nodes are asked at once; under a quota victims on one would make room on others."""
        return 1 if self.pod_scheduler.is_limited(preemptor.demands) else NODES_AT_ONCE

    def _search_on(
        self, nodes: Sequence[str], preemptor: Preemptor, allowed: Mapping[str, int], leaving: Collection[str]
    ) -> VictimSearch:
        freeing = self.pod_scheduler.find_freeing(preemptor.demands, leaving)
        elsewhere = [one for one in freeing if one.node not in nodes]
        fork = self.pod_scheduler.fork(nodes, [one.uid for one in elsewhere])
        alone = () if self.pod_scheduler.is_limited(preemptor.demands) else nodes
        seen = {node: self.pod_scheduler.cluster_state.version_of(node) for node in alone}
        return VictimSearch(fork, preemptor, self.potential_victim_of, allowed, leaving, elsewhere, seen)

    def _choose_by_node_policy(
        self, preemptor: Preemptor, plans: Sequence[PreemptionPlan], forks: Mapping[str, PodScheduler]
    ) -> Generator[None, None, PreemptionPlan | None]:
        """Choose among plans that cost the same as the pod itself would, once their victims are gone.

        forks  in which they are gone, by node
        """
        if len(plans) < 2:
            return plans[0] if plans else None
        by_node = {plan.node: plan for plan in plans}
        fork = forks[plans[0].node]
        if any(forks[node] is not fork for node in by_node):
            fork = yield from self._fork_without(preemptor, plans)
        node = fork.decide(preemptor.demands, tuple(by_node)).node
        return by_node[node] if node else plans[0]

    def _fork_without(
        self, preemptor: Preemptor, plans: Sequence[PreemptionPlan]
    ) -> Generator[None, None, PodScheduler]:
        """Return a fork of the nodes of some plans in which all have left who are to."""
        nodes = [plan.node for plan in plans]
        fork = self.pod_scheduler.fork(nodes, [one.uid for plan in plans for one in plan.leaving])
        fork.cluster_state.forget(preemptor.uid)
        yield
        fork.cluster_state.postpone()
        for plan in plans:
            for gone in (*plan.victims, *plan.leaving):
                fork.cluster_state.forget(gone.uid)
            yield
        fork.cluster_state.catch_up()
        yield
        return fork


def _beats(best: PreemptionPlan, priority: int) -> bool:
    """Tell whether a plan costs less than any whose highest victim has at least such a priority."""
    return not best.victims or (not best.broken and best.victims[0].priority < priority)


def _is_no_better(least: Cost, best: Sequence[PreemptionPlan]) -> bool:
    """Tell whether no plan that costs at least so much could be chosen: of equal ones, the first are chosen among."""
    return bool(best) and (best[0].cost < least or (best[0].cost == least and len(best) >= NODES_AT_ONCE))


def _cheapest(plans: Sequence[PreemptionPlan]) -> list[PreemptionPlan]:
    """Return those that cost the least, in order."""
    least = min((plan.cost for plan in plans), default=NO_COST)
    return [plan for plan in plans if plan.cost == least]
