"""Whom to evict from one node: as few and as unimportant pods as possible."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim, PotentialVictimOf, split_by_budget
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.cluster_state import ClusterState

Cost = tuple[int, int, int, int, float]
"""Sorts the best plan first, see :attr:`PreemptionPlan.cost`."""

_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that more victims never sum up to less."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pod that fits nowhere, and its priority."""

    demands: Demands
    priority: int

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return next(iter(self.demands.values())).uid


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Who would have to leave a node.

    victims  to be evicted, most important first; none if those that end already make room, or it is there
    leaving  end already, and their cards are counted on
    broken   how many victims a PodDisruptionBudget protects
    """

    node: str
    victims: tuple[PotentialVictim, ...]
    leaving: tuple[PotentialVictim, ...] = ()
    broken: int = 0

    @property
    def cost(self) -> Cost:
        """Sorts plans as kube-scheduler does.

        Fewest broken budgets, lowest highest priority, smallest sum of priorities, fewest victims, latest start among
        the most important.
        """
        if not self.victims:
            return 0, 0, 0, 0, 0.0
        most = self.victims[0].priority
        start = min(victim.started for victim in self.victims if victim.priority == most)
        total = sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims)
        return self.broken, most + _PRIORITY_OFFSET, total, len(self.victims), -start


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """Chooses victims on nodes of a fork; every node is afterwards as it was.

    fork     of the cluster, with the nodes that are asked about
    allowed  how many pods each PodDisruptionBudget lets go now; one that is not named lets none go
    """

    fork: PodScheduler
    preemptor: Preemptor
    holder_of: PotentialVictimOf
    allowed: Mapping[str, int]

    def choose(self, node: str, limit: Cost | None = None) -> Generator[None, None, PreemptionPlan | None]:
        """Choose victims on one node, a question to its cards between two steps; None when no eviction helps.

        limit  a plan that costs more is of no use: it is returned as soon as it does, and may name too few victims

        All pods of lower priority leave; then each comes back that leaves enough room, the most protected and the most
        important first. So no victim could stay beside those that stay.
        """
        holders = [self.holder_of(held) for held in self._state.ledger.on_node(node)]
        try:
            return (yield from self._choose(node, holders, limit))
        finally:
            for holder in holders:
                self._state.assume(holder.reservation)

    def _choose(
        self, node: str, holders: Iterable[PotentialVictim], limit: Cost | None
    ) -> Generator[None, None, PreemptionPlan | None]:
        self._state.forget(self.preemptor.uid)
        leaving = tuple(holder for holder in holders if holder.is_leaving)
        self._remove(leaving)
        plan = PreemptionPlan(node, (), leaving)
        if self._fits(node):
            return plan
        yield
        lower = [holder for holder in holders if self._may_evict(holder)]
        self._remove(lower)
        if not lower or not self._fits(node):
            return None
        breaking, free = split_by_budget(lower, self.allowed)
        victims: list[PotentialVictim] = []
        for holder in (*breaking, *free):
            yield
            self._state.assume(holder.reservation)
            if self._fits(node):
                continue
            self._remove((holder,))
            victims.append(holder)
            broken = sum(victim in breaking for victim in victims)
            plan = PreemptionPlan(node, tuple(sorted(victims, key=lambda one: one.importance)), leaving, broken)
            if limit is not None and plan.cost > limit:
                break
        return plan

    @property
    def _state(self) -> ClusterState:
        return self.fork.cluster_state

    def _may_evict(self, holder: PotentialVictim) -> bool:
        if holder.is_leaving or holder.reservation.uid == self.preemptor.uid:
            return False
        return holder.may_leave and holder.priority < self.preemptor.priority

    def _remove(self, holders: Iterable[PotentialVictim]) -> None:
        for holder in holders:
            self._state.forget(holder.reservation.uid)

    def _fits(self, node: str) -> bool:
        return self.fork.decide(self.preemptor.demands, (node,)).node is not None
