"""Planning whom to evict: what is asked for it, and cases that the oracle's cluster does not have."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from builders import NVIDIA, card, container, pod

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.checking import still_holds
from gpuloom.engine.planning.preemption.lowest_priorities import NOBODY, LowestPriorities
from gpuloom.engine.planning.preemption.planner import MOST_CANDIDATES, NODES_AT_ONCE, PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.steps import run_to_end
from gpuloom.model.mig import MIG_MODE, MigPlacement, MigProfile
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import make_catalog
from gpuloom.wire.objects import ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec

CATALOG = make_catalog([NVIDIA])
BATCHES = -(-MOST_CANDIDATES // NODES_AT_ONCE)


class Cluster:
    """Nodes of cards of 16,384 MiB, and who holds them."""

    def __init__(self, nodes: int, cards: int = 1) -> None:
        self.state = ClusterState(CATALOG)
        self.index = LowestPriorities()
        self.scheduler = PodScheduler(self.state, Options())
        self.nodes = tuple(f"n{number}" for number in range(nodes))
        for name in self.nodes:
            registered = tuple(card(f"{name}-{number}", index=number) for number in range(cards))
            self.state.register(name, "NVIDIA", NodeCards(registered))

    def hold(self, node: str, number: int, priority: int, *, namespace: str = "other", **facts: int) -> str:
        uid = f"{node}-{number}-{priority}-{facts}"
        share = Share(f"{node}-{number}", "NVIDIA", facts.get("memory_mib", 16_384), 0)
        self.state.assume(
            Reservation(
                uid=uid,
                namespace=namespace,
                name=uid,
                node=node,
                shares={"NVIDIA": ((share,),)},
                container_types=(),
                status=ReservationStatus.CONFIRMED,
                since=0.0,
                priority=priority,
                started_at=facts.get("started_at", 0),
            )
        )
        return uid

    def plan(self, wanted: Pod, priority: int = 5, **facts: Any) -> PreemptionPlan | None:
        return run_to_end(self.steps(wanted, priority, **facts))

    def steps(self, wanted: Pod, priority: int = 5, **facts: Any) -> Generator[None, None, PreemptionPlan | None]:
        planner = PreemptionPlanner(self.scheduler, PotentialVictim, {}, index=self.index, **facts)
        return planner.plan(Preemptor(read_demands(wanted, CATALOG, Options()), priority), self.nodes)


def names(plan: PreemptionPlan | None) -> tuple[str, tuple[str, ...]]:
    assert plan is not None
    return plan.node, tuple(victim.uid for victim in plan.victims)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, list[int]]:
    """Over how many nodes forks were made, and questions asked."""
    found: dict[str, list[int]] = {"forks": [], "questions": []}
    fork, ask = ClusterState.fork, PodScheduler.find_taking

    def count_fork(state: ClusterState, nodes: Sequence[str] | None = None, also: Any = ()) -> ClusterState:
        found["forks"].append(len(state.nodes) if nodes is None else len(nodes))
        return fork(state, nodes, also)

    def count_question(scheduler: PodScheduler, demands: Any, headrooms: Any = None) -> Any:
        found["questions"].append(len(scheduler.cluster_state.nodes))
        return ask(scheduler, demands, headrooms)

    monkeypatch.setattr(ClusterState, "fork", count_fork)
    monkeypatch.setattr(PodScheduler, "find_taking", count_question)
    return found


def test_nodes_of_important_pods_are_ruled_out_without_a_fork(counts: Mapping[str, list[int]]) -> None:
    cluster = Cluster(300)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1 if name in {"n7", "n250"} else 9)
    assert names(cluster.plan(pod(gpu=1)))[0] in {"n7", "n250"}
    assert counts["forks"] == [2]


def test_where_nobody_is_less_important_nothing_is_tried(counts: Mapping[str, list[int]]) -> None:
    cluster = Cluster(50)
    for name in cluster.nodes:
        cluster.hold(name, 0, 5)
    assert cluster.plan(pod(gpu=1)) is None
    assert counts == {"forks": [], "questions": [50]}


def test_a_node_whose_cards_are_too_few_or_held_by_important_pods_is_ruled_out(
    counts: Mapping[str, list[int]],
) -> None:
    cluster = Cluster(4, cards=2)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
        cluster.hold(name, 1, 1 if name == "n2" else 9)
    assert names(cluster.plan(pod(gpu=2)))[0] == "n2"
    assert cluster.plan(pod(gpu=3)) is None
    assert counts["forks"] == [1]


def test_no_more_nodes_are_tried_once_the_victims_of_others_must_be_more_important(
    counts: Mapping[str, list[int]],
) -> None:
    cluster = Cluster(200)
    for number, name in enumerate(cluster.nodes):
        cluster.hold(name, 0, number % 4)
    assert names(cluster.plan(pod(gpu=1)))[0] in cluster.nodes[::4]
    assert sum(counts["forks"]) <= 50 + 2 * NODES_AT_ONCE


def test_of_very_many_alike_nodes_only_so_many_are_tried_and_all_of_a_batch_at_once(
    counts: Mapping[str, list[int]],
) -> None:
    cluster = Cluster(1_000, cards=4)
    for name in cluster.nodes:
        for number in range(4):
            cluster.hold(name, number, 1)
    plan = cluster.plan(pod(gpu=2))
    assert plan is not None
    assert len(plan.victims) == 2
    # A fork for each batch; in the first one it is chosen among plans that cost the same.
    assert len(counts["forks"]) == BATCHES
    # Once about all nodes; then in each batch as it is, with all gone, and after each of the four that came back.
    assert len(counts["questions"]) == 1 + BATCHES * (2 + 4)


def test_it_is_chosen_among_plans_that_cost_the_same_in_several_batches(counts: Mapping[str, list[int]]) -> None:
    cluster = Cluster(2 * NODES_AT_ONCE)
    for number, name in enumerate(cluster.nodes):
        for memory_mib in (8_000, 8_384) if number % 2 else (16_384,):
            cluster.hold(name, 0, 1, memory_mib=memory_mib)
    assert len(names(cluster.plan(pod(gpu=1, gpumem=16_384)))[1]) == 1
    assert counts["forks"] == [NODES_AT_ONCE, NODES_AT_ONCE, NODES_AT_ONCE]


def test_whether_the_only_one_on_a_full_node_has_to_go_is_not_asked(counts: Mapping[str, list[int]]) -> None:
    cluster = Cluster(100)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
    assert len(names(cluster.plan(pod(gpu=1)))[1]) == 1
    # Once about all nodes; then of the first batch as it is, and with all gone. No other can have a cheaper plan.
    assert len(counts["questions"]) == 1 + 2


def test_among_nodes_alike_the_victim_that_started_last_is_found_in_the_first_batch(
    counts: Mapping[str, list[int]],
) -> None:
    cluster = Cluster(MOST_CANDIDATES)
    for number, name in enumerate(cluster.nodes):
        cluster.hold(name, 0, 1, started_at=1000 + number)
    assert names(cluster.plan(pod(gpu=1)))[0] == cluster.nodes[-1]
    assert len(counts["questions"]) == 1 + 2


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ([(1, 100), (1, 300)], [(1, 200), (1, 250)], "n1"),
        ([(2, 300), (1, 50)], [(2, 200), (1, 250)], "n0"),
    ],
    ids=["the first of them to start", "whoever is less important does not count"],
)
def test_of_nodes_alike_that_one_is_chosen_whose_most_important_victims_started_last(
    first: list[tuple[int, int]], second: list[tuple[int, int]], chosen: str
) -> None:
    cluster = Cluster(2, cards=2)
    for node, held in zip(cluster.nodes, (first, second), strict=True):
        for number, (priority, started_at) in enumerate(held):
            cluster.hold(node, number, priority, started_at=started_at)
    assert names(cluster.plan(pod(gpu=2)))[0] == chosen


def test_victims_come_in_order_of_importance_whoever_breaks_a_budget() -> None:
    cluster = Cluster(1, cards=2)
    more, less = cluster.hold("n0", 0, 2), cluster.hold("n0", 1, 1)

    def protect(held: Reservation) -> PotentialVictim:
        return PotentialVictim(held, ("other/budget",) if held.uid == less else ())

    planner = PreemptionPlanner(cluster.scheduler, protect, {})
    plan = run_to_end(planner.plan(Preemptor(read_demands(pod(gpu=2), CATALOG, Options()), 5), cluster.nodes))
    assert names(plan) == ("n0", (more, less))
    assert plan is not None
    assert plan.breaking == {less}


@pytest.mark.parametrize("priority", [1, 2], ids=["as important", "more important"])
def test_a_node_where_no_budget_is_broken_is_found_behind_any_number_where_one_is(priority: int) -> None:
    cluster = Cluster(MOST_CANDIDATES + 1)
    *guarded, last = cluster.nodes
    for name in guarded:
        cluster.hold(name, 0, 1)
    free = cluster.hold(last, 0, priority)

    def protect(held: Reservation) -> PotentialVictim:
        return PotentialVictim(held, () if held.uid == free else ("other/budget",))

    planner = PreemptionPlanner(cluster.scheduler, protect, {})
    plan = run_to_end(planner.plan(Preemptor(read_demands(pod(gpu=1), CATALOG, Options()), 5), cluster.nodes))
    assert names(plan) == (last, (free,))


def test_nodes_that_only_seem_cheaper_are_no_reason_to_pass_over_one_with_fewer_victims() -> None:
    cluster = Cluster(2 * NODES_AT_ONCE, cards=2)
    for name in cluster.nodes[:NODES_AT_ONCE]:
        cluster.hold(name, 0, 1, started_at=2000)
        cluster.hold(name, 1, 1, started_at=2000)
    for name in cluster.nodes[NODES_AT_ONCE:]:
        cluster.hold(name, 0, 1, started_at=1000)
    node, victims = names(cluster.plan(pod(gpu=2)))
    assert node in cluster.nodes[NODES_AT_ONCE:]
    assert len(victims) == 1


def test_between_two_steps_there_is_one_fork_or_one_question_at_most(counts: Mapping[str, list[int]]) -> None:
    cluster = Cluster(200, cards=2)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
        cluster.hold(name, 1, 2)
    steps, before = cluster.steps(pod(gpu=2)), 0
    for _ in steps:
        done = len(counts["forks"]) + len(counts["questions"])
        assert done - before <= 1
        before = done
    assert before > BATCHES


def test_a_pod_that_ends_already_counts_as_gone_whatever_its_priority() -> None:
    cluster = Cluster(3)
    cluster.hold("n0", 0, 1)
    ending = cluster.hold("n1", 0, 9)
    cluster.hold("n2", 0, 9)
    plan = cluster.plan(pod(gpu=1), leaving={ending})
    assert plan is not None
    assert names(plan) == ("n1", ())
    assert [one.uid for one in plan.leaving] == [ending]


def limit(cluster: Cluster, memory_mib: int) -> None:
    spec = ResourceQuotaSpec(hard={"limits.nvidia.com/gpumem": str(memory_mib)})
    cluster.state.quotas.apply(ResourceQuota(ObjectMeta(name="all", namespace="default"), spec))


def let_one_leave_elsewhere(cluster: Cluster) -> str:
    """Let a pod of the namespace leave n0, on which there is no room all the same; it holds 6,000 MiB."""
    cluster.hold("n0", 0, 9, memory_mib=10_384)
    return cluster.hold("n0", 0, 1, namespace="default", memory_mib=6_000)


def test_nobody_is_evicted_where_a_pod_that_ends_on_another_node_gives_enough_quota_back() -> None:
    cluster = Cluster(3)
    ending = let_one_leave_elsewhere(cluster)
    cluster.hold("n1", 0, 1, namespace="default")
    limit(cluster, 6_000 + 16_384)
    plan = cluster.plan(pod(gpu=1, gpumem=6_000), leaving={ending})
    assert names(plan) == ("n2", ())
    assert plan is not None
    assert [one.uid for one in plan.leaving] == [ending]


def test_quota_that_a_pod_gives_back_who_ends_on_another_node_is_counted_on() -> None:
    cluster = Cluster(2)
    ending, low = let_one_leave_elsewhere(cluster), cluster.hold("n1", 0, 1)
    limit(cluster, 7_000)
    wanted = pod(gpu=1, gpumem=7_000)
    plan = cluster.plan(wanted, leaving={ending})
    assert names(plan) == ("n1", (low,))
    assert plan is not None
    preemptor = Preemptor(read_demands(wanted, CATALOG, Options()), 5)
    assert [one.uid for one in plan.leaving] == [ending]
    assert still_holds(cluster.scheduler, preemptor, plan)
    assert not still_holds(cluster.scheduler, preemptor, replace(plan, leaving=()))


def test_a_plan_does_not_hold_once_a_quota_came_that_leaves_the_pod_no_room() -> None:
    cluster = Cluster(1)
    low = cluster.hold("n0", 0, 1)
    wanted = pod(gpu=1, gpumem=7_000)
    plan, preemptor = cluster.plan(wanted), Preemptor(read_demands(wanted, CATALOG, Options()), 5)
    assert names(plan) == ("n0", (low,))
    assert plan is not None
    assert still_holds(cluster.scheduler, preemptor, plan)
    limit(cluster, 6_999)
    assert not still_holds(cluster.scheduler, preemptor, plan)


def plan_and_ask_later(cluster: Cluster, wanted: Pod, change: Callable[[], object]) -> bool:
    """Plan, let something change, and tell whether the plan still holds."""
    plan = cluster.plan(wanted)
    assert plan is not None
    assert plan.victims
    change()
    return still_holds(cluster.scheduler, Preemptor(read_demands(wanted, CATALOG, Options()), 5), plan)


def test_a_plan_does_not_hold_once_its_victim_has_cards_on_another_node() -> None:
    cluster = Cluster(2)
    low = cluster.hold("n0", 0, 1)
    cluster.hold("n1", 0, 9)

    def move() -> None:
        held = cluster.state.ledger.find(low)
        assert held is not None
        cluster.state.register("n2", "NVIDIA", NodeCards((card("n2-0"),)))
        shares = {"NVIDIA": ((Share("n2-0", "NVIDIA", 16_384, 0),),)}
        cluster.state.assume(msgspec.structs.replace(held, node="n2", shares=shares))

    assert not plan_and_ask_later(cluster, pod(gpu=1), move)


def test_a_plan_does_not_hold_once_its_second_victim_could_stay_without_the_first() -> None:
    cluster = Cluster(1)
    beside = cluster.hold("n0", 0, 9, memory_mib=1_384)
    cluster.hold("n0", 0, 2, memory_mib=9_000)
    cluster.hold("n0", 0, 1, memory_mib=4_000)
    assert not plan_and_ask_later(cluster, pod(gpu=1, gpumem=12_000), lambda: cluster.state.forget(beside))


def test_room_on_a_node_that_is_not_offered_makes_no_plan() -> None:
    cluster = Cluster(2)
    low = cluster.hold("n0", 0, 1)
    planner = PreemptionPlanner(cluster.scheduler, PotentialVictim, {})
    plan = run_to_end(planner.plan(Preemptor(read_demands(pod(gpu=1), CATALOG, Options()), 5), ("n0",)))
    assert names(plan) == ("n0", (low,))


def test_a_plan_that_only_a_quota_asked_for_does_not_hold_once_that_is_gone() -> None:
    cluster = Cluster(1, cards=2)
    cluster.hold("n0", 0, 1, namespace="default")
    limit(cluster, 20_000)
    gone = ResourceQuota(ObjectMeta(name="all", namespace="default"))
    assert not plan_and_ask_later(cluster, pod(gpu=1, gpumem=7_000), lambda: cluster.state.quotas.delete(gone))


def test_a_pod_of_another_namespace_that_ends_gives_back_no_quota() -> None:
    cluster = Cluster(3)
    cluster.hold("n0", 0, 9, namespace="default", memory_mib=6_000)
    ending = cluster.hold("n1", 0, 1)
    limit(cluster, 6_000)
    assert cluster.plan(pod(gpu=1, gpumem=6_000), leaving={ending}) is None


def test_victims_of_another_node_give_back_no_quota_to_this_one() -> None:
    cluster = Cluster(2, cards=2)
    limit(cluster, 32_768)
    cluster.hold("n0", 0, 1, namespace="default")
    cluster.hold("n1", 0, 2, namespace="default")
    cluster.hold("n1", 1, 1)
    # n0 has a free card and is only short of quota; on n1 the one of another namespace would have to go as well.
    assert names(cluster.plan(pod(gpu=1, gpumem=16_384))) == ("n0", ("n0-0-1-{}",))


def test_containers_beside_the_first_count_too() -> None:
    cluster = Cluster(2, cards=2)
    for name in cluster.nodes:
        cluster.hold(name, 0, 9)
    cluster.hold("n1", 1, 1, memory_mib=8_000)
    cluster.hold("n0", 1, 9, memory_mib=8_000)
    wanted = pod(container("a", gpu=1, gpumem=8_000), container("b", gpu=1, gpumem=8_000))
    assert names(cluster.plan(wanted)) == ("n1", ("n1-1-1-{'memory_mib': 8000}",))


def test_the_index_of_priorities_follows_every_change() -> None:
    cluster = Cluster(3, cards=2)

    def lowest() -> list[int]:
        priorities = run_to_end(cluster.index.catch_up(cluster.state, "NVIDIA"))
        rows = [cluster.state["NVIDIA"].table.row(f"n{at // 2}", f"n{at // 2}-{at % 2}") for at in range(6)]
        return [NOBODY if row is None else int(priorities[row]) for row in rows]

    assert lowest() == [NOBODY] * 6
    first = cluster.hold("n0", 0, 7, memory_mib=100)
    cluster.hold("n0", 0, 3, memory_mib=100)
    assert lowest() == [3, *[NOBODY] * 5]
    cluster.hold("n2", 1, -4)
    cluster.state.forget("n0-0-3-{'memory_mib': 100}")
    assert lowest() == [7, *[NOBODY] * 4, -4]
    cluster.state.forget(first)
    more = tuple(card(f"n2-{number}", index=number) for number in range(3))
    cluster.state.register("n2", "NVIDIA", NodeCards(more))
    assert lowest() == [*[NOBODY] * 5, -4]
    cluster.state.register("n2", "NVIDIA", NodeCards(()))
    assert lowest() == [NOBODY] * 6


def test_who_asks_for_priorities_may_change_what_he_gets() -> None:
    cluster = Cluster(1)
    cluster.hold("n0", 0, 1)
    run_to_end(cluster.index.catch_up(cluster.state, "NVIDIA"))[:] = 9
    assert run_to_end(cluster.index.catch_up(cluster.state, "NVIDIA")).tolist() == [1]


def test_who_asks_for_priorities_and_leaves_in_the_middle_spoils_no_later_answer() -> None:
    cluster = Cluster(120)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
    steps = cluster.index.catch_up(cluster.state, "NVIDIA")
    next(steps)
    steps.close()
    *_, last = cluster.nodes
    row = cluster.state["NVIDIA"].table.row(last, f"{last}-0")
    assert row is not None
    assert run_to_end(cluster.index.catch_up(cluster.state, "NVIDIA"))[row] == 1


def test_who_asks_for_priorities_while_another_reads_them_gets_all() -> None:
    cluster = Cluster(120)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
    next(cluster.index.catch_up(cluster.state, "NVIDIA"))
    assert set(run_to_end(cluster.index.catch_up(cluster.state, "NVIDIA")).tolist()) == {1}


def test_a_plan_made_while_the_cluster_changes_ends_with_a_node_that_is_there() -> None:
    cluster = Cluster(60)
    for name in cluster.nodes:
        cluster.hold(name, 0, 1)
    steps = cluster.steps(pod(gpu=1))
    for number, _ in enumerate(iter(lambda: next(steps, "end"), "end")):
        if number < 40:
            cluster.state.register(f"n{number}", "NVIDIA", NodeCards(()))
            cluster.state.register(f"new{number}", "NVIDIA", NodeCards((card(f"new{number}"),)))
    assert cluster.plan(pod(gpu=1)) is not None


def test_beside_those_who_go_anyway_as_few_leave_as_if_they_were_gone() -> None:
    cluster = Cluster(3)
    going = {node: [cluster.hold(node, 0, 9, memory_mib=8000)] for node in cluster.nodes[:2]}
    cluster.hold("n0", 0, 1, memory_mib=8000)
    cluster.hold("n1", 0, 7, memory_mib=8000)
    kept = cluster.hold("n2", 0, 1)
    wanted = pod(gpu=1, gpumem=12_000)
    planner = PreemptionPlanner(cluster.scheduler, PotentialVictim, {})
    preemptor = Preemptor(read_demands(wanted, CATALOG, Options()), 5)
    (plan,) = run_to_end(planner.plan_beside(preemptor, going))
    assert (plan.node, [one.priority for one in plan.victims]) == ("n0", [1])
    assert cluster.state.ledger.find(kept) is not None


def test_who_makes_a_card_faulty_by_holding_all_of_it_is_evicted() -> None:
    cluster = Cluster(1)
    places = tuple(MigPlacement(start, 1) for start in range(7))
    profile = MigProfile("1g.5gb", memory_mib=5120, cores=14, slice_count=1, placements=places)
    divided = msgspec.structs.replace(card("n0-0", memory_mib=40_960, mig_profiles=(profile,)), mode=MIG_MODE)
    cluster.state.register("n0", "NVIDIA", NodeCards((divided,)))
    old = cluster.hold("n0", 0, priority=0, memory_mib=4000)
    assert names(cluster.plan(pod(gpu=1, gpumem=4000))) == ("n0", (old,))


def test_who_could_stay_once_less_important_ones_are_back_is_no_victim() -> None:
    """Two containers after each other: which cards the first one takes depends on who else is there."""
    cluster = Cluster(1)
    cards = (
        card("n0-0", index=0, count=2),
        card("n0-1", index=1, count=2, memory_mib=8192),
        card("n0-2", index=2, count=2),
    )
    cluster.state.register("n0", "NVIDIA", NodeCards(cards))
    cluster.hold("n0", 0, 2, memory_mib=4096)
    victim = cluster.hold("n0", 0, 1, memory_mib=4096)
    cluster.hold("n0", 1, 0, memory_mib=1024)
    asked = container("first", gpu=2, gpumem=8192), container("second", gpu=2, gpumem=4096)
    found = cluster.plan(pod(*asked, annotations={"hami.io/gpu-scheduler-policy": "binpack"}))
    assert names(found) == ("n0", (victim,))
