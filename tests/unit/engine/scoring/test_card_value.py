"""What a card's rest is worth is what shares to come can make of it (the openb trace's default pods)."""

from collections.abc import Mapping
from fractions import Fraction

import pytest

from gpuloom.engine.scoring.fragmentation.card_value import value_rests, waste_of_rests
from gpuloom.engine.scoring.fragmentation.workload import Workload, WorkloadShape

OPENB: Mapping[int, int] = {
    50: 7, 110: 24, 140: 1, 160: 74, 220: 62, 230: 140, 270: 4, 290: 1, 320: 328, 330: 7, 350: 6, 370: 47, 440: 2,
    460: 128, 470: 750, 480: 19, 550: 72, 590: 75, 650: 253, 810: 1078,
}  # fmt: skip


def sharing(sizes: Mapping[int, int]) -> Workload:
    return Workload({WorkloadShape(1000, 1, size): times for size, times in sizes.items()})


VALUES = value_rests(sharing(OPENB))


@pytest.mark.parametrize(
    ("rests", "value"),
    [
        ((0, 160), Fraction(0)),
        ((220,), Fraction(1, 12)),
        ((230, 290), Fraction(1, 4)),
        ((320, 440), Fraction(1, 3)),
        ((460, 480), Fraction(1, 2)),
        ((550, 650), Fraction(2, 3)),
        ((810, 1000), Fraction(1)),
    ],
)
def test_the_rests_of_the_trace_are_worth_what_is_published(rests: tuple[int, ...], value: Fraction) -> None:
    assert {VALUES[rest] for rest in rests} == {value}


def test_a_larger_rest_is_worth_at_least_as_much() -> None:
    assert sorted(VALUES) == VALUES


def test_shares_that_fit_almost_anywhere_do_not_count() -> None:
    assert value_rests(sharing(OPENB)) == value_rests(sharing({**OPENB, 50: 5000}))


def test_a_rest_of_which_more_can_be_made_than_its_size_wastes_less_than_nothing() -> None:
    waste = waste_of_rests(sharing(OPENB))
    assert (waste[810], waste[160], waste[0], waste[1000]) == (-190.0, 160.0, 0.0, 0.0)


def test_without_sharing_pods_only_a_whole_card_is_worth_anything() -> None:
    values = value_rests(Workload({WorkloadShape(1000, 1, 1000): 3}))
    assert (values[999], values[1000]) == (0, 1)
