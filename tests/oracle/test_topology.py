"""Examples of topology-aware selection (scheduler 6.7, B-10)."""

import pytest

from oracle.device import DeviceUsage
from oracle.records import RegisteredCard
from oracle.topology import select_cards

FOUR = {"01": 80, "02": 45, "03": 30, "12": 50, "13": 35, "23": 60}
TRIANGLE = {"01": 100, "02": 200, "12": 150}
NEGATIVE = {"01": -5, "02": -3, "12": -1}


def linked(number: int, pairs: dict[str, int]) -> list[DeviceUsage]:
    scores = {(pair[0], pair[1]): score for pair, score in pairs.items()}
    scores |= {(other, one): score for (one, other), score in scores.items()}
    return [
        DeviceUsage(RegisteredCard(str(at), pair_scores={b: score for (a, b), score in scores.items() if a == str(at)}))
        for at in range(number)
    ]


@pytest.mark.parametrize(
    ("number", "pairs", "nums", "expected"),
    [
        (4, FOUR, 2, (0, 1)),
        (4, FOUR, 3, (0, 1, 2)),
        (4, FOUR, 1, (3,)),
        (4, FOUR, 4, (0, 1, 2, 3)),
        (3, TRIANGLE, 1, (1,)),
        (3, TRIANGLE, 2, (0, 2)),
        (3, {}, 2, (0, 1)),
        (3, NEGATIVE, 1, (0,)),
        (3, NEGATIVE, 2, (1, 2)),
    ],
)
def test_linked_cards_are_chosen_as_in_the_examples(
    number: int, pairs: dict[str, int], nums: int, expected: tuple[int, ...]
):
    """B-08; D-23."""
    assert select_cards([linked(number, pairs)], nums) == (0, expected)


def test_one_card_is_the_one_with_the_lowest_sum_of_its_own_asymmetric_scores():
    devices = [
        DeviceUsage(RegisteredCard(f"GPU-{at}", pair_scores={f"GPU-{(at + 1) % 4}": total}))
        for at, total in enumerate((85, 42, 90, 38))
    ]
    assert select_cards([devices], 1) == (0, (3,))


def test_too_few_cards_are_no_selection():
    assert select_cards([linked(2, {})], 3) is None


def test_several_cards_come_from_the_numa_group_with_the_highest_total():
    """B-10."""
    groups = [linked(2, {"01": 10}), linked(3, TRIANGLE), linked(2, {"01": 300})]
    assert select_cards(groups, 2) == (2, (0, 1))


def test_one_card_comes_from_the_numa_group_with_the_lowest_sum():
    groups = [linked(3, TRIANGLE), linked(1, {}), linked(2, {"01": 0})]
    assert select_cards(groups, 1) == (1, (0,))


def test_instances_of_one_card_are_not_linked_to_each_other():
    card = RegisteredCard("GPU-0", pair_scores={"GPU-0": 100, "GPU-1": 5})
    devices = [DeviceUsage(card), DeviceUsage(card), DeviceUsage(RegisteredCard("GPU-1"))]
    assert select_cards([devices], 2) == (0, (0, 2))
