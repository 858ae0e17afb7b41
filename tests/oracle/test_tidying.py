"""The planner that strands less chooses what trying every candidate in plain Python finds best, step by step."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.defragmentation.gauge import StrandedGauge
from gpuloom.engine.planning.defragmentation.hosts import HostFilters
from gpuloom.engine.planning.defragmentation.plan import TidyingPlan, TidyingStep
from gpuloom.engine.planning.defragmentation.tidying import LEAST_FREED, Tidying
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.steps import run_to_end
from gpuloom.wire.objects import Node, ObjectMeta
from harness.slow import first_of
from oracle.test_defragmentation import OPTIONS, Case, usage

MOST_MOVES = 4


def plan(case: Case, most_moves: int = MOST_MOVES, most_tried: int = 10_000) -> TidyingPlan:
    nodes = {name: Node(metadata=ObjectMeta(name=name)) for name in case.names}
    hosts = HostFilters(nodes, None, lambda _uid: None)
    trials = MoveTrials(PodScheduler(case.state, OPTIONS), lambda held: case.demands.get(held.uid), hosts)
    return run_to_end(Tidying(trials, most_moves, most_tried).plan())


def stranded(state: ClusterState) -> float:
    return StrandedGauge(state).read().stranded


def cards_of(held: Reservation) -> set[str]:
    return {share.uuid for share, _ in held.each_share()}


def candidates(case: Case, state: ClusterState, moved: set[str]) -> Iterator[tuple[Reservation, ...]]:
    """Give the sets on cards of four pods at most, all and single ones of other cards, and all of a node."""
    for name in case.names:
        movable = [one for one in state.ledger.on_node(name) if one.uid in case.demands and one.uid not in moved]
        for count in range(1, len(movable) + 1):
            for some in combinations(movable, count):
                shared = set.intersection(*map(cards_of, some))
                holders = [[one for one in movable if uuid in cards_of(one)] for uuid in shared]
                if count == len(movable) or any(len(on) <= 4 or count in {1, len(on)} for on in holders):
                    yield some


def move(case: Case, state: ClusterState, some: Sequence[Reservation]) -> ClusterState | None:
    """Return the cluster after pods have gone to other nodes, the largest first; None where one finds no room."""
    trial = state.fork()
    for held in some:
        trial.forget(held.uid)
    others = tuple(name for name in case.names if name != some[0].node)
    in_order = sorted(some, key=lambda held: (-held.memory_mib, held.uid))
    does = all(case.take(trial, held.uid, case.demands[held.uid], others) for held in in_order)
    return trial if does else None


def best_by_trying(case: Case, state: ClusterState, moved: set[str]) -> float:
    """Return by how much less is stranded per move with the best candidate."""
    now, best = stranded(state), 0.0
    for some in candidates(case, state, moved):
        if len(some) + len(moved) <= MOST_MOVES and (after := move(case, state, some)) is not None:
            best = max(best, (now - stranded(after)) / len(some))
    return best


def per_move(step: TidyingStep) -> float:
    return step.freed / len(step.moves)


@pytest.mark.parametrize("first", first_of(range(0, 24, 3)))
def test_each_step_does_most_per_move(first: int) -> None:
    for seed in range(first, first + 3):
        case = Case(seed)
        state, moved = case.state, set[str]()
        for step in plan(case).steps:
            assert per_move(step) == pytest.approx(best_by_trying(case, state, moved)), seed
            assert per_move(step) >= LEAST_FREED, seed
            after = move(case, state, [one.pod for one in step.moves])
            assert after is not None
            assert {one.pod.uid: one.node for one in step.moves}.items() <= {
                held.uid: held.node for held in after.ledger
            }.items(), seed
            state = after
            moved |= {one.pod.uid for one in step.moves}
        if len(moved) < MOST_MOVES:
            assert best_by_trying(case, state, moved) < LEAST_FREED, seed


@pytest.mark.slow
def test_the_cases_know_plans_of_several_steps_and_steps_of_several_moves() -> None:
    steps = [plan(Case(seed)).steps for seed in range(12)]
    assert max(map(len, steps)) > 1
    assert max(len(step.moves) for some in steps for step in some) > 1


def test_where_nobody_may_move_there_is_no_step() -> None:
    case = Case(0)
    case.demands.clear()
    found = plan(case)
    assert found.steps == ()
    assert found.after == found.before


@pytest.mark.parametrize("first", first_of(range(0, 12, 3)))
def test_what_is_stranded_before_and_after_is_told(first: int) -> None:
    for seed in range(first, first + 3):
        case = Case(seed)
        found = plan(case)
        assert found.before == StrandedGauge(case.state).read()
        freed = sum(step.freed for step in found.steps)
        assert found.after.stranded == pytest.approx(found.before.stranded - freed)
        assert len(found.moves) <= MOST_MOVES
        assert len({one.pod.uid for one in found.moves}) == len(found.moves)


@pytest.mark.slow
def test_fewer_trials_do_as_much_in_most_cases() -> None:
    cases = [(plan(Case(seed)), plan(Case(seed), most_tried=5)) for seed in range(12)]
    alike = [few for all_tried, few in cases if few.after.stranded <= all_tried.after.stranded + LEAST_FREED]
    assert len(alike) >= 9


@pytest.mark.parametrize("first", first_of(range(0, 12, 3)))
def test_planning_leaves_the_cluster_as_it_is(first: int) -> None:
    for seed in range(first, first + 3):
        case = Case(seed)
        before = usage(case.state)
        plan(case)
        assert usage(case.state) == before
