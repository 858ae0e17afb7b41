"""Whom to evict from a node: as few and as unimportant pods as possible."""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.lone_request import find_lone_request
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim, PotentialVictimOf, split_by_budget
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.cluster_state import ClusterState, NodeVersion
from gpuloom.engine.state.ledger import Reservation

Cost = tuple[int, int, int, int, int]
"""Sorts the best plan first, see :attr:`PreemptionPlan.cost`."""

NO_COST: Final[Cost] = 0, 0, 0, 0, 0
"""Of a plan without victims."""

_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that more victims never sum up to less."""


def least_cost(priority: int, latest_start: int) -> Cost:
    """Return what a plan costs at least whose most important victim has at least a priority.

    latest_start  Unix seconds, of those of that priority who may be among the victims
    """
    return 0, priority + _PRIORITY_OFFSET, priority + _PRIORITY_OFFSET, 1, -latest_start


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
    leaving  pods that go anyway, and whose cards are counted on, or the quota that they give back, on any node
    breaking  UIDs of victims whose leaving breaks a PodDisruptionBudget
    seen      how the node was, None where more than that counts, or nobody knows
    """

    node: str
    victims: tuple[PotentialVictim, ...]
    leaving: tuple[PotentialVictim, ...] = ()
    breaking: frozenset[str] = frozenset()
    seen: NodeVersion | None = field(default=None, compare=False)

    @property
    def broken(self) -> int:
        """How many victims' leaving breaks a PodDisruptionBudget."""
        return len(self.breaking)

    @property
    def cost(self) -> Cost:
        """Sorts plans as kube-scheduler does.

        Fewest broken budgets, lowest highest priority, smallest sum of priorities, fewest victims, latest start among
        the most important.
        """
        if not self.victims:
            return NO_COST
        most = self.victims[0].priority
        start = min(victim.started_at for victim in self.victims if victim.priority == most)
        total = sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims)
        return self.broken, most + _PRIORITY_OFFSET, total, len(self.victims), -start


@dataclass(slots=True)
class _Trial:
    """One node on which victims are looked for.

    left      those who may still be reprieved, the last one first
    tried     how many of them there were at first
    breaking  whose leaving would break a budget
    """

    node: str
    leaving: tuple[PotentialVictim, ...]
    lower: tuple[PotentialVictim, ...]
    seen: NodeVersion | None
    left: list[PotentialVictim] = field(default_factory=list)
    tried: int = 0
    breaking: frozenset[str] = frozenset()
    victims: list[PotentialVictim] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Whether the only one left has to go: all others were reprieved, and with all of them the node was full."""
        return len(self.left) == 1 and not self.victims

    @property
    def plan(self) -> PreemptionPlan:
        """The plan as far as it is known."""
        victims = tuple(sorted(self.victims, key=lambda one: one.importance))
        breaking = self.breaking.intersection(victim.uid for victim in victims)
        return PreemptionPlan(self.node, victims, self.leaving, breaking, self.seen)

    def offer_reprieve(self, some: Sequence[PotentialVictim]) -> None:
        """Take who may be reprieved, the first one first."""
        self.left, self.tried, self.victims = list(reversed(some)), len(some), []

    def offer_another_reprieve(self) -> bool:
        """Take the victims once more if pods were reprieved after them; tell whether any were."""
        if not 1 < len(self.victims) < self.tried:
            return False
        self.offer_reprieve(self.victims)
        return True


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """Chooses victims on the nodes of a fork. Afterwards that is as if those had left who are named by its plans.

    fork     of the cluster, with the nodes that are asked about
    allowed  how many pods each PodDisruptionBudget lets go now; one that is not named lets none go
    leaving  UIDs of leaving pods
    elsewhere  what those of them hold on other nodes who give the pod quota back; the fork has them too
    seen     how the nodes were when they were forked, as far as a plan for one depends on that one only
    """

    fork: PodScheduler
    preemptor: Preemptor
    potential_victim_of: PotentialVictimOf
    allowed: Mapping[str, int]
    leaving: Collection[str]
    elsewhere: Sequence[Reservation] = ()
    seen: Mapping[str, NodeVersion] = field(default_factory=dict)

    def choose(self, nodes: Sequence[str], limit: Cost | None = None) -> Generator[None, None, list[PreemptionPlan]]:
        """Choose victims on each of some nodes; nodes where no eviction helps have no plan.

        limit  a plan that costs more is of no use, and may name too few victims

        As in kube-scheduler, all pods of lower priority leave, then each is reprieved that leaves enough room, the most
        protected and the most important first. So no victim could stay beside those that stay. All nodes are asked at
        once, for that takes hardly longer than asking one. Where cards are chosen together, who was in the way may not
        be any more once others are reprieved: then the victims are offered it again.
        """
        yield
        self._state.forget(self.preemptor.uid)
        trials: list[_Trial] = []
        for node in nodes:
            trials.append(self._begin(node))
            yield
        fitting = yield from self._fitting(trials)
        plans = [trial.plan for trial in trials if trial.node in fitting]
        trials = [trial for trial in trials if trial.lower and trial.node not in fitting]
        # A node's cards are written once for all who leave it.
        self._state.postpone()
        for trial in trials:
            self._remove(trial.lower)
            yield
        self._state.catch_up()
        yield
        fitting = yield from self._fitting(trials)
        trials = [trial for trial in trials if trial.node in fitting]
        for trial in trials:
            breaking, free = split_by_budget(trial.lower, self.allowed)
            trial.breaking = frozenset(one.uid for one in breaking)
            trial.offer_reprieve((*breaking, *free))
            yield
        return plans + (yield from self._reprieve(trials, limit))

    def _begin(self, node: str) -> _Trial:
        held = (*self._state.ledger.on_node(node), *self.elsewhere)
        potential = [self.potential_victim_of(one) for one in held]
        leaving = tuple(one for one in potential if one.uid in self.leaving)
        self._remove(leaving)
        lower = tuple(one for one in potential if self._may_evict(one))
        return _Trial(node, leaving, lower, self.seen.get(node))

    def _reprieve(self, trials: list[_Trial], limit: Cost | None) -> Generator[None, None, list[PreemptionPlan]]:
        """Reprieve one pod after another on each node, and remove it again where the pod does not fit beside it."""
        plans: list[PreemptionPlan] = []
        asks_again = not self._do_single_cards_tell
        while trials:
            asked = [trial for trial in trials if not trial.is_settled]
            for trial in asked:
                self._state.assume(trial.left[-1].reservation)
                yield
            fitting = yield from self._fitting(asked)
            going: list[_Trial] = []
            for trial in trials:
                if trial.is_settled:
                    trial.victims.append(trial.left.pop())
                elif trial.node in fitting:
                    trial.left.pop()
                else:
                    self._remove(trial.left[-1:])
                    trial.victims.append(trial.left.pop())
                if trial.left:
                    is_open = limit is None or not trial.victims or trial.plan.cost <= limit
                else:
                    is_open = asks_again and trial.offer_another_reprieve()
                if is_open:
                    going.append(trial)
                else:
                    plans.append(trial.plan)
                yield
            trials = going
        return plans

    @property
    def _do_single_cards_tell(self) -> bool:
        """Whether a pod that is reprieved takes room, and never changes which cards are chosen to the pod's good."""
        schedulers = self.fork.by_vendor
        demands = self.preemptor.demands.items()
        return all(find_lone_request(schedulers[word], demand) is not None for word, demand in demands)

    @property
    def _state(self) -> ClusterState:
        return self.fork.cluster_state

    def _may_evict(self, one: PotentialVictim) -> bool:
        return one.may_leave and one.priority < self.preemptor.priority and one.uid not in self.leaving

    def _remove(self, some: Iterable[PotentialVictim]) -> None:
        for one in some:
            self._state.forget(one.uid)

    def _fitting(self, trials: Sequence[_Trial]) -> Generator[None, None, frozenset[str]]:
        """Return which nodes take the pod as they are now."""
        if not trials:
            return frozenset()
        return (yield from self.fork.find_taking(self.preemptor.demands))
