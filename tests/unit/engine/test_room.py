"""How many pods there is room for, held against placing them one by one."""

from collections.abc import Mapping, Sequence

import pytest
from builders import card, container, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.capacity import MOST_PLACED, Capacity, count_capacity
from gpuloom.engine.request.demand import ContainerType, Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.steps import run_to_end
from gpuloom.model.card import Card
from gpuloom.model.share import Share
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Container, ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec, Resources

CATALOG = SchedulerSettings().catalog
PACKED = {"hami.io/gpu-scheduler-policy": "binpack"}


def fleet(nodes: Mapping[str, Sequence[Card]], options: Options | None = None) -> PodScheduler:
    cluster = ClusterState(CATALOG)
    for name, cards in nodes.items():
        cluster.register(name, "NVIDIA", NodeCards(tuple(cards)))
    return PodScheduler(cluster, options or Options())


def hold(scheduler: PodScheduler, node: str, uuid: str, *, memory_mib: int, cores: int = 0) -> None:
    shares = {"NVIDIA": ((Share(uuid, "NVIDIA", memory_mib, cores),),)}
    reservation = Reservation(
        uuid, "other", uuid, node, shares, (ContainerType.REGULAR,), ReservationStatus.CONFIRMED, 0.0
    )
    scheduler.cluster_state.assume(reservation)


def limit(scheduler: PodScheduler, resource: str, amount: int) -> None:
    spec = ResourceQuotaSpec(hard={f"limits.{resource}": str(amount)})
    scheduler.cluster_state.quotas.apply(ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=spec))


def read(scheduler: PodScheduler, asked: Pod) -> Demands:
    return read_demands(asked, CATALOG, scheduler.options)


def count(scheduler: PodScheduler, asked: Pod, limits: Mapping[str, int] | None = None) -> Capacity:
    demands = read(scheduler, asked)
    decision = scheduler.decide(demands, tuple(scheduler.cluster_state.nodes), explain=True)
    for _ in decision.complete():
        pass
    return run_to_end(count_capacity(scheduler, demands, decision, limits or {}))


def place_all(scheduler: PodScheduler, asked: Pod) -> int:
    demands = read(scheduler, asked)
    for number in range(MOST_PLACED):
        decision = scheduler.decide(demands, tuple(scheduler.cluster_state.nodes))
        if decision.node is None:
            return number
        demand, uid = next(iter(demands.values())), f"p{number}"
        held = imagine_reservation(demand, decision.node, decision.shares, decision.instances, uid=uid)
        scheduler.cluster_state.assume(held)
    raise AssertionError("too many")


def crowded() -> PodScheduler:
    scheduler = fleet({"n1": [card("a"), card("b"), card("c")], "n2": [card("d", memory_mib=8000), card("e", count=2)]})
    hold(scheduler, "n1", "a", memory_mib=9000, cores=50)
    hold(scheduler, "n2", "e", memory_mib=1000)
    return scheduler


def uneven() -> PodScheduler:
    """One card with more room than two others."""
    scheduler = fleet({"n1": [card("a", memory_mib=16_000), card("b"), card("c")]})
    hold(scheduler, "n1", "b", memory_mib=8000)
    hold(scheduler, "n1", "c", memory_mib=8000)
    return scheduler


def two_sizes() -> PodScheduler:
    return fleet({"n1": [card("a", memory_mib=10_000, count=100)], "n2": [card("b", memory_mib=40_000, count=100)]})


def two_vendors() -> PodScheduler:
    scheduler = fleet({"n1": [card("a")], "n2": [card("b")]})
    scheduler.cluster_state.register("n2", "DCU", NodeCards((card("d"),)))
    hold(scheduler, "n1", "a", memory_mib=9000)
    return scheduler


def dcu() -> dict[str, str | int | float]:
    return {"hygon.com/dcunum": "1", "hygon.com/dcumem": "500", "hygon.com/dcucores": "10"}


def of_two_vendors() -> Pod:
    nvidia = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    return pod(Container(name="main", resources=Resources(limits={**nvidia, **dcu()})))


@pytest.mark.parametrize(
    "limits",
    [
        {"gpu": 1, "gpumem": 3000},
        {"gpu": 1, "gpumem": 3000, "gpucores": 30},
        {"gpu": 2, "gpumem": 4000},
        {"gpu": 3, "gpumem": 100},
        {"gpu": 1},
        {"gpu": 1, "gpumem": 100, "gpucores": 100},
        {"gpu": 1, "gpumem_percentage": 50},
    ],
)
def test_the_count_is_how_many_can_be_placed(limits) -> None:
    asked = pod(**limits)
    assert count(crowded(), asked).pods == place_all(crowded(), asked)


def test_pods_with_several_containers_are_placed_one_by_one() -> None:
    asked = pod(container("one", gpu=1, gpumem=6000), container("two", gpu=1, gpumem=7000))
    room = count(crowded(), asked)
    assert (room.pods, room.is_least) == (place_all(crowded(), asked), False)


def test_pods_of_several_cards_take_those_that_their_policy_takes() -> None:
    asked = pod(gpu=2, gpumem=8000, annotations=PACKED)
    assert count(uneven(), asked).pods == place_all(uneven(), asked) == 1


def test_pods_of_all_cards_of_a_node_are_as_many_as_the_fullest_card_takes() -> None:
    scheduler = fleet({"n1": [card("a", memory_mib=16_000), card("b", memory_mib=16_000)]})
    hold(scheduler, "n1", "b", memory_mib=10_000)
    assert count(scheduler, pod(gpu=2, gpumem=4000)).pods == 1


def test_where_cards_serve_very_often_the_count_says_that_there_may_be_more() -> None:
    room = count(fleet({"n1": [card("a", count=2000)]}), pod(gpu=1, gpumem=1))
    assert (room.pods < 2000, room.is_least) == (True, True)


def test_where_a_quota_leaves_room_for_cards_that_were_not_looked_at_the_count_says_so() -> None:
    large = {f"n{at}": [card(f"c{at}", memory_mib=40_000)] for at in range(MOST_PLACED)}
    scheduler = fleet({**large, "small": [card("s", memory_mib=10_000)]})
    limit(scheduler, "nvidia.com/gpumem", 10_500)
    asked = pod(*(container(name, gpu=1, gpumem_percentage=10) for name in ("one", "two")))
    room = count(scheduler, asked)
    assert (room.pods, room.is_least) == (1, True)


def test_pods_that_want_whole_cards_are_counted_beyond_the_bound() -> None:
    many = fleet({f"n{at}": [card(f"c{at}-{place}") for place in range(8)] for at in range(MOST_PLACED)})
    room = count(many, pod(gpu=4, gpucores=100))
    assert (room.pods, room.is_least) == (2 * MOST_PLACED, False)


def test_counting_one_by_one_ends_somewhere() -> None:
    many = fleet({f"n{i}": [card(f"c{i}", count=100)] for i in range(10)})
    asked = pod(container("one", gpu=1, gpumem=10), container("two", gpu=1, gpumem=10))
    room = count(many, asked)
    assert (room.pods, room.is_least) == (MOST_PLACED, True)


def test_counting_one_by_one_decides_no_more_often_than_pods_are_placed_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = fleet({f"n{at}": [card(f"c{at}")] for at in range(2 * MOST_PLACED)})
    asked = read(many, pod(container("one", gpu=1, gpumem=10), container("two", gpu=1, gpumem=10)))
    decision, looked_at, decide = many.decide(asked, tuple(many.cluster_state.nodes)), list[int](), PodScheduler.decide

    def note(scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Decision:
        looked_at.append(len(names))
        return decide(scheduler, demands, names)

    monkeypatch.setattr(PodScheduler, "decide", note)
    run_to_end(count_capacity(many, asked, decision))
    assert (len(looked_at), max(looked_at)) == (MOST_PLACED, MOST_PLACED)


def test_a_node_gets_no_more_than_its_limit() -> None:
    asked = pod(container("one", gpu=1, gpumem=100), container("two", gpu=1, gpumem=100))
    assert count(crowded(), asked, {"n1": 2, "n2": 0}).by_node == (("n1", 2),)


def test_a_quota_ends_the_count() -> None:
    scheduler = fleet({"n1": [card("a"), card("b")]})
    limit(scheduler, "nvidia.com/gpumem", 7000)
    assert count(scheduler, pod(gpu=1, gpumem=3000)).pods == 2


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_a_quota_is_used_up_in_the_order_in_which_nodes_are_taken(policy: str) -> None:
    asked = pod(gpu=1, gpumem_percentage=5, annotations={"hami.io/node-scheduler-policy": policy})
    counted, placed = two_sizes(), two_sizes()
    for scheduler in (counted, placed):
        limit(scheduler, "nvidia.com/gpumem", 20_000)
    assert count(counted, asked).pods == place_all(placed, asked)


def test_a_quota_that_does_not_count_in_decisions_does_not_end_the_count() -> None:
    scheduler = PodScheduler(two_vendors().cluster_state, Options(quota_in_fit="hami"))
    limit(scheduler, "hygon.com/dcumem", 600)
    asked = pod(Container(name="main", resources=Resources(limits=dcu())))
    assert count(scheduler, asked).pods == 10


def test_pods_of_several_vendors_use_up_quotas_only_where_all_cards_are() -> None:
    counted, placed = two_vendors(), two_vendors()
    for scheduler in (counted, placed):
        limit(scheduler, "nvidia.com/gpumem", 4000)
    assert count(counted, of_two_vendors()).by_node == (("n2", place_all(placed, of_two_vendors())),)


def test_nodes_with_most_room_come_first() -> None:
    assert count(crowded(), pod(gpu=1, gpumem=3000)).by_node == (("n1", 12), ("n2", 3))


def test_counting_changes_nothing() -> None:
    scheduler = crowded()
    table = scheduler.cluster_state["NVIDIA"].table
    before = table.cards.used_memory_mib.tolist()
    for asked in (pod(gpu=1, gpumem=3000), pod(gpu=2, gpumem=3000)):
        count(scheduler, asked)
    assert table.cards.used_memory_mib.tolist() == before
