"""With how much less of a card, or how many cards fewer, a pod would fit: the most that does, and what was tried."""

from typing import Any

import pytest
from builders import NVIDIA, Engine, card, container, pod

from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.steps import run_to_end
from gpuloom.wire.objects import Pod


def tell(engine: Engine, asked: Pod) -> list[str]:
    demand = read_demand(asked, NVIDIA, engine.options)
    scope = ExplanationScope(tuple(engine.cluster.table.positions), pod=asked)
    told = run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, scope)).remedies
    return [remedy.text for remedy in told if remedy.change == "requests"]


def share_two(**used: int) -> Engine:
    """Two nodes of two cards of 16,384 MiB; n2 has more room on one card, n1 as much on both."""
    engine = Engine({"n1": [card("a"), card("b")], "n2": [card("c"), card("d")]})
    for node, uuid, part in (("n1", "a", 2), ("n1", "b", 2), ("n2", "c", 1), ("n2", "d", 3)):
        engine.hold(node, uuid, by=uuid, **{name: amount * part for name, amount in used.items()})
    return engine


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ({"gpu": 1, "gpumem": 16_000}, ["would fit on n2 with 12,384 MiB at most"]),
        ({"gpu": 2, "gpumem": 16_000}, ["would fit on n1 with 8,384 MiB at most"]),
        ({"gpu": 1, "gpumem": 60_000}, ["would fit on n2 with 12,384 MiB at most"]),
        ({"gpu": 1, "gpumem-percentage": 90}, ["would fit on n2 with 12,384 MiB at most"]),
        ({"gpu": 1, "gpumem": 12_384}, []),
        ({"gpu": 3, "gpumem": 16_000}, []),
    ],
    ids=["one card", "two cards", "more than any card has", "by percentage", "fits", "too many cards"],
)
def test_the_most_memory_with_which_a_pod_fits_is_told(asks: dict[str, Any], told: list[str]) -> None:
    assert tell(share_two(memory_mib=4000), pod(**asks)) == told


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ({"gpu": 1, "gpumem": 100, "gpucores": 90}, ["would fit on n2 with 70 % of the cores at most"]),
        ({"gpu": 1, "gpumem": 100, "gpucores": 100}, ["would fit on n2 with 70 % of the cores at most"]),
        (
            {"gpu": 2, "gpumem": 100, "gpucores": 60},
            ["would fit on n1 with 40 % of the cores at most", "would fit on n2 with 1 card at most"],
        ),
    ],
    ids=["some", "all", "of two cards"],
)
def test_the_most_cores_with_which_a_pod_fits_are_told(asks: dict[str, Any], told: list[str]) -> None:
    assert tell(share_two(memory_mib=100, cores=30), pod(**asks)) == told


def test_all_nodes_are_counted_that_would_take_so_much_less() -> None:
    engine = Engine({name: [card(f"{name}-a")] for name in ("n1", "n2", "n3")})
    for name, used in (("n1", 4000), ("n2", 4000), ("n3", 9000)):
        engine.hold(name, f"{name}-a", memory_mib=used, by=name)
    (told,) = tell(engine, pod(gpu=1, gpumem=16_000))
    assert told.endswith(" or 1 other with 12,384 MiB at most")


def test_nothing_is_told_where_less_of_one_thing_is_not_enough() -> None:
    assert tell(share_two(memory_mib=4000, cores=30), pod(gpu=1, gpumem=16_000, gpucores=90)) == []
    full = Engine({"n1": [card("a")]})
    full.hold("n1", "a", memory_mib=16_384, cores=100, by="x")
    assert tell(full, pod(gpu=1, gpumem=100, gpucores=10)) == []


def test_a_card_that_others_must_leave_alone_is_not_opened_by_asking_for_less() -> None:
    engine = Engine({"n1": [card("a")]})
    engine.hold("n1", "a", memory_mib=1000, cores=10, by="x")
    alone = {"hami.io/gpu-scheduler-policy": "mutex"}
    assert tell(engine, pod(gpu=1, gpumem=100, gpucores=95, annotations=alone)) == []


def four_and_two() -> Engine:
    """A node of four cards, of which one is full, and one of two."""
    engine = Engine({"n1": [card(uuid) for uuid in "abcd"], "n2": [card(uuid) for uuid in "ef"]})
    engine.hold("n1", "a", memory_mib=16_384, by="full")
    return engine


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ({"gpu": 8, "gpumem": 1000}, ["would fit on n1 with 3 cards at most"]),
        ({"gpu": 4, "gpumem": 1000}, ["would fit on n1 with 3 cards at most"]),
        ({"gpu": 1_000_000, "gpumem": 1000}, ["would fit on n1 with 3 cards at most"]),
        ({"gpu": 3, "gpumem": 1000}, []),
        ({"gpu": 8, "gpumem": 60_000}, []),
    ],
    ids=["more than any node has", "more than are free", "very many", "fits", "too much of each"],
)
def test_the_most_cards_with_which_a_pod_fits_are_told(asks: dict[str, Any], told: list[str]) -> None:
    assert tell(four_and_two(), pod(**asks)) == told


def test_nodes_that_kube_scheduler_does_not_offer_do_not_count_for_fewer_cards() -> None:
    engine, asked = four_and_two(), pod(gpu=8, gpumem=1000)
    scope = ExplanationScope(("n1", "n2"), {"n1": "closed"}, pod=asked)
    demands = {"NVIDIA": read_demand(asked, NVIDIA, engine.options)}
    told = run_to_end(explain(engine.pod_scheduler, demands, scope)).remedies
    assert [remedy.text for remedy in told] == ["would fit on n2 with 2 cards at most"]


def test_the_container_of_several_is_named_that_asks_for_too_many_cards() -> None:
    asked = pod(container("a", gpu=1, gpumem=9000), container("b", gpu=6, gpumem=9000))
    assert tell(four_and_two(), asked) == ["would fit on n1 with 2 cards at most for container b"]


def test_each_container_is_named_of_which_fewer_cards_would_be_enough() -> None:
    asked = pod(container("a", gpu=2, gpumem=9000), container("b", gpu=2, gpumem=9000))
    told = [f"would fit on n1 with 1 card at most for container {name}" for name in "ab"]
    assert tell(four_and_two(), asked) == told


def test_fewer_cards_of_one_numa_node_are_told() -> None:
    engine = Engine({"n1": [card(f"c{at}", numa=at // 3) for at in range(4)]})
    bound = {"nvidia.com/numa-bind": "true"}
    assert tell(engine, pod(gpu=4, gpumem=1000, annotations=bound)) == ["would fit on n1 with 3 cards at most"]


def test_of_several_containers_none_is_told_to_ask_for_less_of_a_card() -> None:
    asked = pod(container("a", gpu=1, gpumem=16_000), container("b", gpu=1, gpumem=16_000))
    assert tell(share_two(memory_mib=4000), asked) == []
