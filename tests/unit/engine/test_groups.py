"""What no single card can answer: NUMA binding, links, quotas (scheduler 6.6, 6.7, 6.10)."""

from collections.abc import Mapping
from typing import Any

import pytest
from builders import Engine, card, cards_of, container, pod

from gpuloom.engine.placement.linked_cards import choose_linked
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.wire.objects import ObjectMeta, ResourceQuota, ResourceQuotaSpec

BIND = {"nvidia.com/numa-bind": "true"}
LINKED = {"hami.io/gpu-scheduler-policy": "topology-aware"}


def symmetric(pairs: Mapping[str, int]) -> dict[str, dict[str, int]]:
    scores: dict[str, dict[str, int]] = {}
    for pair, score in pairs.items():
        one, other = tuple(pair)
        scores.setdefault(one, {})[other] = score
        scores.setdefault(other, {})[one] = score
    return scores


FOUR = symmetric({"01": 80, "02": 45, "03": 30, "12": 50, "13": 35, "23": 60})
THREE = symmetric({"01": 100, "02": 200, "12": 150})
COLD = symmetric({"01": -5, "02": -3, "12": -1})


@pytest.mark.parametrize(
    ("scores", "cards", "wanted", "chosen"),
    [
        (FOUR, 4, 1, "3"),
        (FOUR, 4, 2, "01"),
        (FOUR, 4, 3, "012"),
        (THREE, 3, 1, "1"),
        (THREE, 3, 2, "02"),
        (COLD, 3, 1, "0"),
        (COLD, 3, 2, "12"),
        ({}, 3, 2, "01"),
    ],
)
def test_cards_are_chosen_by_their_links(scores: Any, cards: int, wanted: int, chosen: str) -> None:
    candidates = [str(number) for number in range(cards)]
    positions, _ = choose_linked(candidates, wanted, scores)
    assert "".join(candidates[position] for position in positions) == chosen


def test_topology_policy_takes_the_best_linked_cards() -> None:
    engine = Engine({})
    cards = tuple(card(str(number), index=number) for number in range(4))
    engine.cluster.register("n1", NodeCards(cards, FOUR))
    decision = engine.decide(pod(gpu=2, gpumem=1, annotations=LINKED))
    assert set(cards_of(decision)[0]) == {"0", "1"}


def two_numa_nodes() -> Engine:
    numa = {"A": 0, "B": 0, "C": 1}
    return Engine({"n1": [card(uuid, index=i, numa=numa[uuid]) for i, uuid in enumerate(numa)]})


def test_numa_binding_takes_all_cards_from_one_numa_node() -> None:
    assert cards_of(two_numa_nodes().decide(pod(gpu=2, gpumem=1, annotations=BIND))) == [["B", "A"]]


def test_numa_nodes_that_are_too_small_are_counted() -> None:
    """B-50."""
    words = two_numa_nodes().why(pod(gpu=3, gpumem=1, annotations=BIND))
    assert words == "1/3 NumaNotFit, 2/3 AllocatedCardsInsufficientRequest"


def test_without_numa_binding_cards_of_several_numa_nodes_will_do() -> None:
    assert two_numa_nodes().decide(pod(gpu=3, gpumem=1)).node == "n1"


def with_quota(engine: Engine, **hard: int) -> Engine:
    limits = {f"limits.nvidia.com/{name}": str(value) for name, value in hard.items()}
    quota = ResourceQuota(
        metadata=ObjectMeta(name="q", namespace="default"),
        spec=ResourceQuotaSpec(hard=dict(limits)),
    )
    engine.cluster.quotas.apply(quota)
    return engine


def two_cards() -> Engine:
    return Engine({"n1": [card("A"), card("B", index=1)]})


def test_quota_is_a_limit_that_may_be_reached() -> None:
    assert with_quota(two_cards(), gpumem=1000).decide(pod(gpu=2, gpumem=500)).node == "n1"


def test_quota_counts_all_cards_of_a_request() -> None:
    words = with_quota(two_cards(), gpumem=1000).why(pod(gpu=2, gpumem=501))
    assert words == "1/2 AllocatedCardsInsufficientRequest, 1/2 ResourceQuotaNotFit"


def test_quota_of_zero_blocks_everything() -> None:
    assert with_quota(two_cards(), gpucores=0).why(pod(gpu=1, gpumem=1, gpucores=1)) == "2/2 ResourceQuotaNotFit"


def test_quota_counts_what_the_namespace_holds_already() -> None:
    engine = with_quota(two_cards(), gpumem=1000)
    engine.place(pod(name="first", gpu=1, gpumem=600, gpucores=1))
    assert engine.why(pod(name="second", gpu=1, gpumem=600, gpucores=1)) == "2/2 ResourceQuotaNotFit"


def test_quota_counts_init_containers_by_their_maximum() -> None:
    """B-11."""
    engine = with_quota(two_cards(), gpumem=1000)
    asked = pod(
        container("c", gpu=1, gpumem=900),
        init=[container("i", gpu=1, gpumem=1000)],
        annotations={"nvidia.com/use-gpuuuid": "A"},
    )
    assert engine.decide(asked).node == "n1"


def test_smallest_of_several_quotas_counts() -> None:
    """B-43."""
    engine = with_quota(two_cards(), gpumem=1000)
    other = ResourceQuota(
        metadata=ObjectMeta(name="other", namespace="default"),
        spec=ResourceQuotaSpec(hard={"limits.nvidia.com/gpumem": "100"}),
    )
    engine.cluster.quotas.apply(other)
    assert engine.why(pod(gpu=1, gpumem=101)) == "2/2 ResourceQuotaNotFit"


def test_quota_with_links_counts_as_many_cards_as_are_taken() -> None:
    """B-09; D-16."""
    decision = with_quota(two_cards(), gpumem=500).decide(pod(gpu=1, gpumem=500, annotations=LINKED))
    assert decision.node == "n1"
