"""The worked examples of the specification, one test each (scheduler 3, 5.9, 6.5, 6.7)."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import NVIDIA, Engine, card, cards_of, container, pod

from gpuloom.engine.placement.linked_cards import choose_linked
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.card_order import DeviceSort, sort_key, sort_matrix
from gpuloom.engine.scoring.card_scores import score_cards
from gpuloom.engine.scoring.node_score import score_node
from gpuloom.engine.scoring.policies import read_card_policy
from gpuloom.engine.scoring.weights import Weights
from gpuloom.model.cards import CardNumbers, Cards
from gpuloom.model.request_columns import Headroom, RequestColumns, RequestNumbers, ScoreRequest
from gpuloom.vendors.profile import RequestDefaults

EVEN = Weights()
DEFAULTS = NVIDIA.request
FACTOR_2 = msgspec.structs.replace(DEFAULTS, memory_factor=2)
MEMORY_512 = msgspec.structs.replace(DEFAULTS, default_memory_mib=512)


def one(**facts: Any) -> CardNumbers:
    """A card of plain numbers."""
    return CardNumbers(*(facts.get(name, 0) for name in Cards.__struct_fields__))


def want(slots: int, cores: int, memory_mib: int) -> RequestNumbers:
    return RequestNumbers(
        cards=1,
        cores=cores,
        memory_mib=memory_mib,
        refused_kind=None,
        refused_uuid=None,
        mutex=False,
        headroom=Headroom(),
        score=ScoreRequest(slots=slots, cores=cores, memory_mib=memory_mib),
    )


def a_card(slots: str, cores: str, memory: str) -> CardNumbers:
    """A card as the examples write it: used/total of each."""
    (used_slots, count), (used_cores, total_cores), (used_mib, total_mib) = (
        map(int, text.split("/")) for text in (slots, cores, memory)
    )
    return one(
        used_slots=used_slots,
        count=count,
        used_cores=used_cores,
        total_cores=total_cores,
        used_memory_mib=used_mib,
        total_memory_mib=total_mib,
    )


@pytest.mark.parametrize(
    ("on", "asked", "score"),
    [
        pytest.param(a_card("3/10", "40/100", "6144/16384"), want(1, 20, 4096), 16.25, id="device"),
        pytest.param(a_card("2/10", "1/4", "2048/8192"), want(0, 0, 0), 7.0, id="device, no request"),
        pytest.param(a_card("0/10", "0/10", "0/10000"), want(1, 2, 5000), 8.0, id="device, percentage"),
    ],
)
def test_score_of_a_card(on: Cards, asked: RequestColumns, score: float) -> None:
    assert float(score_cards(on, asked, EVEN)) == score


@pytest.mark.parametrize(
    ("used", "total", "score"),
    [
        pytest.param((25, 25, 20), (100, 100, 100), 7.0, id="A"),
        pytest.param((75, 70, 65), (100, 100, 100), 21.0, id="B"),
        pytest.param((0, 0, 0), (100, 100, 100), 0.0, id="C"),
        pytest.param((50 + 75, 200, 2000), (100 + 150, 200, 2000), 25.0, id="two devices"),
    ],
)
def test_score_of_a_node(used: tuple[int, ...], total: tuple[int, ...], score: float) -> None:
    assert float(score_node(used, total)) == score


@pytest.mark.parametrize(("policy", "chosen"), [("binpack", "B"), ("spread", "C")])
def test_fullest_or_emptiest_of_three_nodes_is_chosen(policy: str, chosen: str) -> None:
    engine = Engine({name: [card(name, count=100, memory_mib=100)] for name in "ABC"}, node_policy=policy)
    engine.hold("A", "A", slots=25, cores=25, memory_mib=20)
    engine.hold("B", "B", slots=75, cores=70, memory_mib=65)
    assert engine.decide(pod(gpu=1, gpumem=1, gpucores=1)).node == chosen


ORDERS = [
    pytest.param("numa-first", "binpack", "BADC", id="numa-first binpack"),
    pytest.param("numa-first", "spread", "CDAB", id="numa-first spread"),
    pytest.param("score-first", "binpack", "DBCA", id="score-first binpack"),
    pytest.param("score-first", "spread", "ACBD", id="score-first spread"),
]
FOUR = {"A": (0, 5), "B": (0, 15), "C": (1, 8), "D": (1, 20)}
"""NUMA node and score; with only memory counting, the score is ten times what is used of one MiB."""
BY_MEMORY = Weights(slot=0, core=0, memory=1)


def four_cards() -> list[CardNumbers]:
    return [
        one(numa=numa, index=index, count=1, total_cores=1, total_memory_mib=10, used_memory_mib=score)
        for index, (numa, score) in enumerate(FOUR.values())
    ]


@pytest.mark.parametrize(("sort", "policy", "tried"), ORDERS)
def test_order_in_which_cards_are_tried(sort: DeviceSort, policy: str, tried: str) -> None:
    keys = read_card_policy(policy, numa_bind=False, device_sort=sort).order
    found = [sort_key(card, want(0, 0, 0), keys, BY_MEMORY, place) for place, card in enumerate(four_cards())]
    assert "".join("ABCD"[place] for place in sorted(range(4), key=found.__getitem__)) == tried


@pytest.mark.parametrize(("sort", "policy", "tried"), ORDERS)
def test_columns_are_ordered_as_single_cards_are(sort: DeviceSort, policy: str, tried: str) -> None:
    keys = read_card_policy(policy, numa_bind=False, device_sort=sort).order
    columns = Cards(*np.array([msgspec.structs.astuple(one) for one in four_cards()]).T[:, None])
    none = np.zeros((1, 4), np.int64)
    required = RequestColumns(
        cards=1,
        cores=0,
        memory_mib=none,
        refused_kind=None,
        refused_uuid=None,
        mutex=False,
        headroom=Headroom(),
        score=ScoreRequest(slots=0, cores=0, memory_mib=none),
    )
    (order,) = sort_matrix(columns, required, keys, BY_MEMORY, np.ones((1, 4), bool)).tolist()
    assert "".join("ABCD"[place] for place in order) == tried


@pytest.mark.parametrize(
    ("weights", "scores"),
    [
        pytest.param(Weights(1, 1, 1), (16, 15), id="even"),
        pytest.param(Weights(slot=1, core=1, memory=3), (26, 27), id="memory counts thrice"),
        pytest.param(Weights(slot=1, core=3, memory=1), (34, 17), id="cores count thrice"),
    ],
)
def test_weights(weights: Weights, scores: tuple[int, int]) -> None:
    two = (a_card("1/10", "90/100", "10/100"), a_card("7/10", "10/100", "20/100"))
    assert tuple(round(float(score_cards(on, want(1, 0, 40), weights)), 4) for on in two) == scores


@pytest.mark.parametrize("weight", [1, 3, 10**6, 2**62, 2**63 - 1])
def test_columns_score_as_single_cards_do_whatever_the_weight(weight: int) -> None:
    two = (a_card("1/10", "90/100", "10/100"), a_card("7/10", "10/100", "20/100"))
    columns: Any = Cards(*np.array([msgspec.structs.astuple(one) for one in two]).T)
    asked, weights = want(4, 0, 40), Weights(slot=weight, core=weight, memory=weight)
    alone = [float(score_cards(on, asked, weights)) for on in two]
    assert score_cards(columns, asked, weights).tolist() == alone


@pytest.mark.parametrize(
    ("limits", "defaults", "expected"),
    [
        pytest.param({"gpu": 1}, DEFAULTS, (1, 0, 100, 0), id="count alone"),
        pytest.param({"gpu": 2, "gpumem": 4096}, DEFAULTS, (2, 4096, 101, 0), id="memory"),
        pytest.param({"gpu": 1, "gpumem_percentage": 50}, DEFAULTS, (1, 0, 50, 0), id="percentage"),
        pytest.param({"gpu": 1, "gpumem_percentage": 150}, DEFAULTS, (1, 0, 100, 0), id="150 per cent"),
        pytest.param({"gpu": 1, "gpumem_percentage": 101}, DEFAULTS, (1, 0, 100, 0), id="101 per cent"),
        pytest.param({"gpu": 1, "gpumem_percentage": 2**32 + 50}, DEFAULTS, (1, 0, 100, 0), id="beyond 32 bits"),
        pytest.param({"gpu": 1, "gpumem_percentage": 0}, DEFAULTS, (1, 0, 100, 0), id="0 per cent"),
        pytest.param({"gpu": 1, "gpumem_percentage": "-1"}, DEFAULTS, (1, 0, 100, 0), id="negative percentage"),
        pytest.param({"gpu": 1, "gpumem": 2000, "gpumem_percentage": 0}, DEFAULTS, (1, 2000, 101, 0), id="both"),
        pytest.param({"gpu": 1, "gpucores": 50}, DEFAULTS, (1, 0, 100, 50), id="cores"),
        pytest.param({"gpu": 1, "gpumem": "16Gi"}, DEFAULTS, None, id="memory with a unit"),
        pytest.param({"gpu": 1, "gpumem": "16.0Gi"}, DEFAULTS, None, id="memory with a fraction"),
        pytest.param({"gpu": 1, "gpumem": 1024}, FACTOR_2, (1, 2048, 101, 0), id="factor"),
        pytest.param({"gpu": 1, "gpumem": "1Gi"}, FACTOR_2, None, id="factor and unit"),
        pytest.param({"gpu": 1}, MEMORY_512, (1, 512, 101, 0), id="default memory"),
        pytest.param({"gpu": 1, "gpumem_percentage": 0}, MEMORY_512, (1, 512, 101, 0), id="default for 0 per cent"),
        pytest.param({"gpu": 1, "gpumem": 0}, MEMORY_512, (1, 512, 101, 0), id="default for 0 MiB"),
    ],
)
def test_request_of_a_container(
    limits: dict[str, Any], defaults: RequestDefaults, expected: tuple[int, int, int, int] | None
) -> None:
    profile = msgspec.structs.replace(NVIDIA, request=defaults)
    (asked,) = read_demand(pod(container(**limits)), profile, Options()).containers
    found = asked.request
    numbers = found and (found.cards, found.memory_mib, found.memory_percentage, found.cores)
    assert numbers == expected


@pytest.mark.parametrize(
    ("cards", "held", "asked", "outcome"),
    [
        pytest.param(2, (0, 0, 128, 0), (1, 64, 50), ["dev-1"], id="two equal cards"),
        pytest.param(1, (0, 0, 128, 0), (1, 512, 50), "1/1 CardInsufficientMemory", id="memory"),
        pytest.param(1, (1, 0, 1024, 100), (1, 512, 50), "1/1 CardInsufficientCore", id="cores"),
        pytest.param(1, (100, 0, 1280, 0), (1, 512, 50), "1/1 CardTimeSlicingExhausted", id="slots"),
        pytest.param(1, (0, 0, 1280, 0), (1, 512, 120), ["dev-0"], id="120 cores are 100"),
        pytest.param(1, (20, 0, 1280, 0), (1, 512, 100), "1/1 ExclusiveDeviceAllocateConflict", id="exclusive"),
        pytest.param(1, (20, 0, 1280, 100), (1, 512, 0), "1/1 CardComputeUnitsExhausted", id="no cores left"),
        pytest.param(1, (20, 0, 1280, 10), (2, 512, 20), "NodeInsufficientDevice", id="more cards than there are"),
        pytest.param(1, (20, 0, 1280, 10), (1, "10%", 20), ["dev-0"], id="ten per cent"),
        pytest.param(1, (0, 0, 11264, 0), (1, "100%", 0), ["dev-0"], id="whole card"),
    ],
)
def test_fit_of_a_container(
    cards: int, held: tuple[int, int, int, int], asked: tuple[int, Any, int], outcome: list[str] | str
) -> None:
    slots, used_mib, total_mib, cores = held
    devices = [card(f"dev-{index}", index=index, count=100, memory_mib=total_mib) for index in range(cards)]
    engine = Engine({"n1": devices})
    if slots:
        engine.hold("n1", "dev-0", slots=slots, memory_mib=used_mib, cores=cores)
    count, memory, percent = asked
    amount = {"gpumem_percentage": memory.rstrip("%")} if isinstance(memory, str) else {"gpumem": memory}
    wanted = pod(container(gpu=count, gpucores=percent, **amount))
    found = cards_of(engine.decide(wanted))[0] if isinstance(outcome, list) else engine.why(wanted)
    assert found == outcome


def test_card_with_the_lowest_sum_of_links_is_taken_alone() -> None:
    totals = {"GPU-0": 85, "GPU-1": 42, "GPU-2": 90, "GPU-3": 38}
    names = list(totals)
    scores = {name: {names[(place + 1) % 4]: total} for place, (name, total) in enumerate(totals.items())}
    places, _ = choose_linked(names, 1, scores)
    assert [names[place] for place in places] == ["GPU-3"]
