"""Where to make room: the node whose victims cost least."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.rule_matrix import make_rule_matrix
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictimOf
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor, VictimSearch
from gpuloom.engine.request.demand import Demand
from gpuloom.model.request_columns import UNBOUNDED

LEAST_CANDIDATES = 100
CANDIDATES_FRACTION = 0.1
"""A plan is chosen among so many nodes where eviction helps, as kube-scheduler does by default."""

_FORKED_AT_ONCE = 16
"""Forking this many nodes costs three times as much as one."""


@dataclass(frozen=True, slots=True)
class PreemptionPlanner:
    """Looks for the node on which a pod of higher priority gets room at the least cost.

    allowed  how many pods each PodDisruptionBudget lets go now
    strict   whether plans that break a budget are none
    """

    pod_scheduler: PodScheduler
    holder_of: PotentialVictimOf
    allowed: Mapping[str, int]
    strict: bool = False

    def plan(self, preemptor: Preemptor, nodes: Sequence[str]) -> Generator[None, None, PreemptionPlan | None]:
        """Choose node and victims for a pod that fits nowhere, in steps of few questions to one node's cards.

        nodes  those that take the pod but for its cards

        None when no eviction helps. The state is not changed. If it changes between two steps, the plan is right for
        the moment when its node was looked at: who acts on it asks again.
        """
        best: list[PreemptionPlan] = []
        found = 0
        most = max(LEAST_CANDIDATES, int(CANDIDATES_FRACTION * len(nodes)))
        possible = self._nodes_with_enough_cards(preemptor, nodes)
        for search, node in self._fork(preemptor, possible):
            yield
            plan = yield from search.choose(node, best[0].cost if best else None)
            if plan is None or (self.strict and plan.broken):
                continue
            found += 1
            if not best or plan.cost < best[0].cost:
                best = [plan]
            elif plan.cost == best[0].cost:
                best.append(plan)
            if not plan.victims or found >= most:
                break
        return self._choose_by_node_policy(preemptor, best)

    def _fork(self, preemptor: Preemptor, nodes: Sequence[str]) -> Iterator[tuple[VictimSearch, str]]:
        for first in range(0, len(nodes), _FORKED_AT_ONCE):
            some = nodes[first : first + _FORKED_AT_ONCE]
            fork = PodScheduler(self.pod_scheduler.cluster_state.fork(some), self.pod_scheduler.options)
            yield from ((VictimSearch(fork, preemptor, self.holder_of, self.allowed), node) for node in some)

    def _nodes_with_enough_cards(self, preemptor: Preemptor, nodes: Sequence[str]) -> list[str]:
        """Return the nodes whose cards would do if nobody were on them, as far as single cards tell."""
        possible = set(nodes)
        for word, demand in preemptor.demands.items():
            possible.intersection_update(self._with_enough_cards(word, demand))
        return [node for node in nodes if node in possible]

    def _with_enough_cards(self, word: str, demand: Demand) -> Iterator[str]:
        scheduler = self.pod_scheduler.by_vendor[word]
        matrix = make_rule_matrix(scheduler, scheduler.state.table, demand, demand.placed_first, UNBOUNDED)
        lasting = sum(check.bit for check in matrix.checks if check.rule.outlasts_pods)
        usable = (matrix.bits >= 0) & ((matrix.bits & lasting) == 0)
        usable &= matrix.required.memory_mib <= matrix.cards.total_memory_mib
        # A card that is divided may serve a container several times.
        needed = 1 if matrix.table.partitions else matrix.request.cards
        return (matrix.table.names[position] for position in np.flatnonzero(matrix.count(usable) >= needed).tolist())

    def _choose_by_node_policy(self, preemptor: Preemptor, plans: Sequence[PreemptionPlan]) -> PreemptionPlan | None:
        """Choose among plans that cost the same as the pod itself would, once their victims are gone."""
        if len(plans) < 2:
            return plans[0] if plans else None
        by_node = {plan.node: plan for plan in plans}
        fork = PodScheduler(self.pod_scheduler.cluster_state.fork(by_node.keys()), self.pod_scheduler.options)
        for plan in plans:
            for holder in (*plan.victims, *plan.leaving):
                fork.cluster_state.forget(holder.reservation.uid)
        fork.cluster_state.forget(preemptor.uid)
        node = fork.decide(preemptor.demands, tuple(by_node)).node
        return by_node[node] if node else plans[0]
