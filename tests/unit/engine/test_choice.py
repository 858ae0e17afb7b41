"""Which card and which node are chosen among those that fit (scheduler 5)."""

from typing import Any

import pytest
from builders import Engine, card, cards_of, pod

SMALL: dict[str, Any] = {"gpu": 1, "gpumem": 100, "gpucores": 1}


def four_cards(**options: str) -> Engine:
    """Scores of the spec's example: A 5 and B 15 on NUMA node 0, C 8 and D 20 on NUMA node 1."""
    engine = Engine(
        {
            "n1": [
                card("A", index=0, numa=0),
                card("B", index=1, numa=0),
                card("C", index=2, numa=1),
                card("D", index=3, numa=1),
            ]
        },
        **options,
    )
    for uuid, cores in (("A", 20), ("B", 60), ("C", 30), ("D", 80)):
        engine.hold("n1", uuid, cores=cores)
    return engine


@pytest.mark.parametrize(
    ("policy", "sort", "order"),
    [
        ("binpack", "numa-first", "BADC"),
        ("spread", "numa-first", "CDAB"),
        ("binpack", "score-first", "DBCA"),
        ("spread", "score-first", "ACBD"),
    ],
)
def test_cards_are_tried_in_the_order_of_policy_and_switch(policy: str, sort: str, order: str) -> None:
    engine = four_cards(card_policy=policy, device_sort=sort)
    decision = engine.decide(pod(gpu=4, gpumem=100, gpucores=1))
    assert "".join(cards_of(decision)[0]) == order


@pytest.mark.parametrize(("policy", "node"), [("binpack", "full"), ("spread", "empty")])
def test_node_policy_prefers_the_fullest_or_the_emptiest_node(policy: str, node: str) -> None:
    engine = Engine({"empty": [card("E")], "full": [card("F")]}, node_policy=policy)
    engine.hold("full", "F", memory_mib=1000, cores=10)
    assert engine.decide(pod(**SMALL)).node == node


def test_pods_own_policy_wins_over_the_default() -> None:
    engine = Engine({"empty": [card("E")], "full": [card("F")]}, node_policy="binpack")
    engine.hold("full", "F", memory_mib=1000, cores=10)
    assert engine.decide(pod(annotations={"hami.io/node-scheduler-policy": "spread"}, **SMALL)).node == "empty"


def test_among_equal_nodes_the_one_named_first_is_chosen() -> None:
    engine = Engine({"a": [card("A")], "b": [card("B")]})
    assert engine.decide(pod(**SMALL), "b", "a").node == "b"


def test_fitting_nodes_are_listed_worst_first_with_their_scores() -> None:
    engine = Engine({"n1": [card("A")], "n2": [card("B")]})
    engine.hold("n2", "B", cores=50)
    assert engine.decide(pod(**SMALL)).fitting.worst_first() == [("n1", 0.0), ("n2", 6.0)]


def test_node_score_is_what_is_used_of_slots_cores_and_memory() -> None:
    """B-46."""
    engine = Engine({"n1": [card("A", count=10, cores=4, memory_mib=8192)]})
    engine.hold("n1", "A", slots=2, cores=1, memory_mib=2048)
    assert engine.decide(pod(gpu=1, gpumem=1, gpucores=0)).fitting.worst_first() == [("n1", 7.0)]


@pytest.mark.parametrize(("key", "chosen"), [("use-gputype", "B"), ("nouse-gputype", "A")])
def test_cards_are_chosen_by_parts_of_their_model(key: str, chosen: str) -> None:
    """B-47."""
    engine = Engine({"n1": [card("A", model="NVIDIA L4"), card("B", model="NVIDIA A100-SXM4-40GB")]})
    assert cards_of(engine.decide(pod(annotations={f"nvidia.com/{key}": "a100"}, **SMALL))) == [[chosen]]


@pytest.mark.parametrize(("key", "chosen"), [("use-gpuuuid", "A"), ("nouse-gpuuuid", "B")])
def test_cards_are_chosen_by_their_id(key: str, chosen: str) -> None:
    engine = Engine({"n1": [card("A"), card("B")]})
    assert cards_of(engine.decide(pod(annotations={f"nvidia.com/{key}": " A ,"}, **SMALL))) == [[chosen]]


def test_with_numa_binding_fuller_cards_of_another_numa_node_may_lie_between() -> None:
    cards = [card(str(at), index=at, numa=at % 2, memory_mib=1000) for at in range(4)]
    engine = Engine({"n1": cards}, node_policy="fragmentation", card_policy="fragmentation")
    for at, held in enumerate((300, 200, 100)):
        engine.hold("n1", str(at), memory_mib=held)
    bound = pod(gpu=2, gpumem_percentage=30, annotations={"nvidia.com/numa-bind": "true"})
    assert cards_of(engine.decide(bound)) == [["0", "2"]]
