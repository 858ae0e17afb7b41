"""A plan holds, and is chosen, without a fork where that is known: what is said is what a new fork says."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from comings import CATALOG, WORDS, demands_of
from happenings import DRAWN, NODES, Drawn, register, take
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.checking import still_holds
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end


@dataclass
class Full:
    """A cluster that pods of little importance have filled, and one that is to get room."""

    word: str
    chooser: Random

    def __post_init__(self) -> None:
        self.scheduler = PodScheduler(ClusterState(CATALOG), Options())
        for node in NODES:
            drawn = register, 0, self.chooser.randint(1, 3), self.chooser.choice((0, 0, 1, 2))
            take([drawn], self.word, (node,), self.scheduler)
            self.fill(node)
        held = [one.uid for one in self.scheduler.cluster_state.ledger]
        self.leaving = set(self.chooser.sample(held, len(held) // 10))
        policy = self.chooser.choice(("binpack", "spread"))
        cards = self.chooser.choice(((1,), (2,), (1, 1)))
        self.preemptor = Preemptor(demands_of(self.word, *cards, policy=policy), 5)

    def fill(self, node: str) -> None:
        for number in range(12):
            demands = demands_of(self.word, 1)
            decision = self.scheduler.decide(demands, (node,))
            if decision.node is None:
                return
            held = imagine_placed(demands, decision, uid=f"{node}-fills-{number}")
            priority = self.chooser.choice((0, 0, 0, 1))
            self.scheduler.cluster_state.assume(msgspec.structs.replace(held, priority=priority))

    def plan(self) -> PreemptionPlan | None:
        planner = PreemptionPlanner(self.scheduler, PotentialVictim, {}, leaving=self.leaving)
        return run_to_end(planner.plan(self.preemptor, NODES))


def choose_anew(planner: PreemptionPlanner, preemptor: Preemptor, plans: Any, _forks: Any) -> Any:
    """Choose among plans on a fork from which their victims are taken."""
    fork = yield from planner._fork_without(preemptor, plans)
    by_node = {plan.node: plan for plan in plans}
    return by_node.get(fork.decide(preemptor.demands, tuple(by_node)).node or "")


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=8)
@given(st.randoms(use_true_random=False), DRAWN)
def test_what_is_known_of_a_plan_is_what_a_new_fork_says(word: str, chooser: Random, later: Drawn) -> None:
    full = Full(word, chooser)
    plan = full.plan()
    with patch.object(PreemptionPlanner, "_choose_by_node_policy", choose_anew):
        assert full.plan() == plan
    if plan is None:
        return
    for drawn in (None, *later):
        take([drawn] if drawn else [], word, NODES, full.scheduler)
        holds = still_holds(full.scheduler, full.preemptor, plan)
        assert holds == still_holds(full.scheduler, full.preemptor, replace(plan, seen=None))
