"""Examples of the order of cards and nodes (scheduler 5.3, 5.5, 5.9)."""

import pytest

from oracle.device import DeviceUsage
from oracle.order import sort_devices, sort_nodes
from oracle.records import RegisteredCard
from oracle.settings import Settings


def four_cards() -> list[DeviceUsage]:
    facts = (("A", 0, 5.0), ("B", 0, 15.0), ("C", 1, 8.0), ("D", 1, 20.0))
    return [DeviceUsage(RegisteredCard(id_, numa=numa), at, score=score) for at, (id_, numa, score) in enumerate(facts)]


def tried(devices: list[DeviceUsage], policy: str, *, sort: str = "numa-first", numa_bind: bool = False) -> str:
    ascending = sort_devices(devices, policy, Settings(device_sort=sort), numa_bind=numa_bind)
    return "".join(device.card.id for device in reversed(ascending))


@pytest.mark.parametrize(
    ("policy", "sort", "numa_bind", "expected"),
    [
        ("binpack", "numa-first", False, "BADC"),
        ("spread", "numa-first", False, "CDAB"),
        ("binpack", "score-first", False, "DBCA"),
        ("spread", "score-first", False, "ACBD"),
        ("binpack", "score-first", True, "BADC"),
        ("topology-aware", "score-first", False, "ACBD"),
        ("SPREAD", "score-first", False, "ACBD"),
        ("numa,binpack", "score-first", False, "DCBA"),
        ("binpack,numa", "score-first", False, "DBCA"),
        ("binpack,numa", "score-first", True, "DCBA"),
        ("foo,", "score-first", False, "ACBD"),
        ("numa", "numa-first", False, "DCBA"),
    ],
)
def test_cards_are_tried_in_the_order_of_the_policy(policy: str, sort: str, numa_bind: bool, expected: str):  # noqa: FBT001
    """B-54; D-01."""
    assert tried(four_cards(), policy, sort=sort, numa_bind=numa_bind) == expected


def test_mutex_tries_the_least_used_card_first():
    devices = four_cards()
    for device, used in zip(devices, (0, 3, 1, 1), strict=True):
        device.used = used
    assert tried(devices, "mutex") == "ADCB"


def test_among_equals_the_highest_index_then_the_last_registered_is_tried_first():
    """B-04."""
    indexes = (("A", 1), ("B", 0), ("C", 1))
    devices = [DeviceUsage(RegisteredCard(id_, index=index), at) for at, (id_, index) in enumerate(indexes)]
    assert tried(devices, "spread") == "CAB"


@pytest.mark.parametrize(("policy", "best"), [("binpack", "B"), ("spread", "C"), ("first-fit", "A"), ("other", "B")])
def test_the_best_node_is_the_last(policy: str, best: str):
    assert sort_nodes({"A": 7.0, "B": 21.0, "C": 0.0}, policy)[-1][0] == best


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_among_equal_nodes_the_first_candidate_is_the_best(policy: str):
    """B-04; D-36."""
    assert sort_nodes({"B": 1.0, "A": 1.0, "C": 1.0}, policy)[-1][0] == "B"


def test_first_fit_tries_the_lowest_index_first():
    indexes = (("A", 2), ("B", 0), ("C", 1))
    devices = [DeviceUsage(RegisteredCard(id_, index=index), at) for at, (id_, index) in enumerate(indexes)]
    assert tried(devices, "first-fit") == "BCA"
