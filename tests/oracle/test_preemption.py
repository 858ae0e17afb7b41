"""The planner of preemption finds what trying every set of victims finds, and leaves the cluster as it is."""

from collections.abc import Mapping, Sequence
from random import Random

from builders import NVIDIA, card, pod

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.steps import run_to_end
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import make_catalog
from oracle.preemption import PlainCard, PlainNode, PlainPod, Wish, best_victims, fits, price

CATALOG = make_catalog([NVIDIA])
BUDGETS = {"web": 1, "db": 0}


def some_node(chooser: Random, name: str) -> PlainNode:
    cards = [PlainCard(chooser.randint(1, 4), chooser.choice([8, 16])) for _ in range(chooser.randint(1, 3))]
    pods: list[PlainPod] = []
    for number in range(chooser.randint(0, 5)):
        one = PlainPod(
            f"{name}-{number}",
            tuple(sorted(chooser.sample(range(len(cards)), chooser.randint(1, min(2, len(cards)))))),
            chooser.randint(1, 8),
            chooser.randint(-1, 4),
            chooser.randint(1, 3),
            tuple(sorted(chooser.sample(sorted(BUDGETS), chooser.randint(0, 2)))),
            may_leave=chooser.random() > 0.15,
            is_leaving=chooser.random() < 0.15,
        )
        if all(_has_room(cards, pods, one, number) for number in one.cards):
            pods.append(one)
    return cards, pods


def some_case(seed: int) -> tuple[dict[str, PlainNode], Wish]:
    chooser = Random(seed)
    cluster = {name: some_node(chooser, name) for name in ("a", "b")}
    return cluster, Wish(chooser.randint(1, 3), chooser.randint(1, 16), chooser.randint(0, 5))


def _has_room(cards: Sequence[PlainCard], pods: Sequence[PlainPod], one: PlainPod, number: int) -> bool:
    return fits([cards[number]], [PlainPod("", (0,), p.memory, 0, 0) for p in pods if number in p.cards], _asks(one))


def _asks(one: PlainPod) -> Wish:
    return Wish(1, one.memory, 0)


def build(cluster: Mapping[str, PlainNode]) -> ClusterState:
    state = ClusterState(CATALOG)
    for name, (cards, pods) in cluster.items():
        registered = [
            card(f"{name}-{number}", index=number, count=one.slots, memory_mib=one.memory)
            for number, one in enumerate(cards)
        ]
        state.register(name, "NVIDIA", NodeCards(tuple(registered)))
        for one in pods:
            shares = tuple(Share(f"{name}-{number}", "NVIDIA", one.memory, 0) for number in one.cards)
            state.assume(
                Reservation(
                    uid=one.uid,
                    namespace="default",
                    name=one.uid,
                    node=name,
                    shares={"NVIDIA": (shares,)},
                    container_types=(),
                    status=ReservationStatus.CONFIRMED,
                    since=0.0,
                    priority=one.priority,
                    started_at=one.started,
                )
            )
    return state


def plan(cluster: Mapping[str, PlainNode], wish: Wish, state: ClusterState, *, strict: bool) -> PreemptionPlan | None:
    known = {one.uid: one for _, pods in cluster.values() for one in pods}

    def look_up(held: Reservation) -> PotentialVictim:
        return PotentialVictim(held, known[held.uid].budgets, known[held.uid].may_leave)

    leaving = {uid for uid, one in known.items() if one.is_leaving}
    demands = read_demands(pod(gpu=wish.cards, gpumem=wish.memory), CATALOG, Options())
    planner = PreemptionPlanner(PodScheduler(state, Options()), look_up, BUDGETS, strict, leaving)
    return run_to_end(planner.plan(Preemptor(demands, wish.priority), tuple(cluster)))


def is_full(cluster: Mapping[str, PlainNode], wish: Wish) -> bool:
    return not any(fits(cards, pods, wish) for cards, pods in cluster.values())


CASES = [some_case(seed) for seed in range(600)]
FULL = [case for case in CASES if is_full(*case)]
FITTING = [case for case in CASES if not is_full(*case)]


def test_victims_are_those_of_the_best_of_all_sets_on_the_best_node() -> None:
    for cluster, wish in FULL:
        found = plan(cluster, wish, build(cluster), strict=False)
        by_node = {name: best_victims(node, wish, BUDGETS) for name, node in cluster.items()}
        prices = {
            name: price(cluster[name], victims, wish, BUDGETS)
            for name, victims in by_node.items()
            if victims is not None
        }
        if found is None:
            assert not prices, (cluster, wish)
        else:
            assert prices[found.node] == min(prices.values()), (cluster, wish)
            assert frozenset(victim.reservation.uid for victim in found.victims) == by_node[found.node], (cluster, wish)


def test_a_strict_plan_breaks_no_budget_and_is_found_where_there_is_one() -> None:
    for cluster, wish in FULL:
        found = plan(cluster, wish, build(cluster), strict=True)
        sets = {name: best_victims(node, wish, BUDGETS) for name, node in cluster.items()}
        unbroken = [
            name
            for name, victims in sets.items()
            if victims is not None and price(cluster[name], victims, wish, BUDGETS)[1:2] in {(), (0,)}
        ]
        assert (found is None) == (not unbroken), (cluster, wish)
        assert found is None or not found.broken


def test_a_pod_that_fits_evicts_nobody() -> None:
    for cluster, wish in FITTING:
        found = plan(cluster, wish, build(cluster), strict=False)
        assert found is not None
        assert not found.victims


def test_planning_leaves_the_cluster_as_it_is() -> None:
    for cluster, wish in CASES[:100]:
        state = build(cluster)
        before = {held.uid: held for held in state.ledger}
        plan(cluster, wish, state, strict=False)
        assert {held.uid: held for held in state.ledger} == before


def test_the_cases_know_plans_with_and_without_victims_and_broken_budgets_and_none_at_all() -> None:
    plans = [plan(cluster, wish, build(cluster), strict=False) for cluster, wish in FULL]
    assert {bool(found.victims) for found in plans if found} == {True, False}
    assert any(found.broken for found in plans if found)
    assert None in plans
