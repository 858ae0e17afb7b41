"""How many pods there is room for, held against placing them one by one."""

import pytest
from builders import NVIDIA, Engine, card, container, pod

from gpuloom.engine.planning.capacity import MOST_PLACED, Capacity, count_capacity, intersect_capacities
from gpuloom.engine.request.demand import read_demand
from gpuloom.model.request_columns import Headroom
from gpuloom.wire.objects import ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec


def count(engine: Engine, asked: Pod) -> Capacity:
    demand = read_demand(asked, NVIDIA, engine.options)
    decision = engine.decide(asked, explain=True)
    if engine.cluster.quotas.limits(asked.namespace):
        headroom = engine.cluster.quotas.headroom(asked.namespace, NVIDIA, engine.cluster.ledger)
    else:
        headroom = Headroom()
    return count_capacity(engine.vendor_scheduler, demand, decision, headroom)


def place_all(engine: Engine, asked: Pod) -> int:
    for number in range(MOST_PLACED):
        one = pod(*asked.containers, name=f"p{number}", annotations=dict(asked.annotations))
        if engine.place(one).node is None:
            return number
    raise AssertionError("too many")


def crowded() -> Engine:
    engine = Engine({"n1": [card("a"), card("b"), card("c")], "n2": [card("d", memory_mib=8000), card("e", count=2)]})
    engine.hold("n1", "a", memory_mib=9000, cores=50)
    engine.hold("n2", "e", memory_mib=1000)
    return engine


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


def test_counting_one_by_one_ends_somewhere() -> None:
    many = Engine({f"n{i}": [card(f"c{i}", count=100)] for i in range(10)})
    asked = pod(container("one", gpu=1, gpumem=10), container("two", gpu=1, gpumem=10))
    room = count(many, asked)
    assert (room.pods, room.is_least) == (MOST_PLACED, True)


def test_a_quota_ends_the_count() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    spec = ResourceQuotaSpec(hard={"limits.nvidia.com/gpumem": "7000"})
    engine.cluster.quotas.apply(ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=spec))
    assert count(engine, pod(gpu=1, gpumem=3000)).pods == 2


def test_nodes_with_most_room_come_first() -> None:
    assert count(crowded(), pod(gpu=1, gpumem=3000)).by_node == (("n1", 12), ("n2", 3))


def test_counting_changes_nothing() -> None:
    engine = crowded()
    before = engine.cluster.table.cards.used_memory_mib.tolist()
    count(engine, pod(gpu=1, gpumem=3000))
    assert engine.cluster.table.cards.used_memory_mib.tolist() == before


def test_pods_that_need_several_vendors_find_the_room_that_all_of_them_have_on_one_node() -> None:
    rooms = [Capacity(7, False, (("n1", 5), ("n2", 2))), Capacity(9, False, (("n2", 6), ("n1", 3)))]
    assert intersect_capacities(rooms) == Capacity(5, False, (("n1", 3), ("n2", 2)))
