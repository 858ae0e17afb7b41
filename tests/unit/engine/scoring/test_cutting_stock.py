"""The own solver of the cutting-stock program is exact: its prices prove its number of cards, and HiGHS agrees."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.scoring.fragmentation.cutting_stock import solve_cutting_stock

LENGTH = 60
WANTED = st.dictionaries(st.integers(7, LENGTH), st.integers(1, 200), min_size=1, max_size=7)


def patterns(sizes: list[int], length: int) -> Iterator[list[int]]:
    """All multisets of sizes that fit, as how often each is in it."""
    if not sizes:
        yield []
        return
    for times in range(length // sizes[0] + 1):
        yield from ([times, *rest] for rest in patterns(sizes[1:], length - times * sizes[0]))


@given(WANTED)
def test_no_pattern_is_worth_more_than_a_card_and_prices_pay_for_all_cards(wanted: dict[int, int]) -> None:
    solved = solve_cutting_stock(wanted, LENGTH)
    sizes = sorted(wanted)
    prices = [solved.prices[size] for size in sizes]
    assert min(prices) >= 0
    worth = (sum((p * n for p, n in zip(prices, cut, strict=True)), Fraction()) for cut in patterns(sizes, LENGTH))
    assert max(worth) <= 1
    assert sum(price * wanted[size] for size, price in solved.prices.items()) == solved.cards


@settings(max_examples=50)
@given(WANTED)
def test_highs_needs_as_many_cards(wanted: dict[int, int]) -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy comes with the extra packages of the simulator")
    sizes = sorted(wanted)
    columns = list(patterns(sizes, LENGTH))
    supplied = [[-cut[at] for cut in columns] for at in range(len(sizes))]
    found = optimize.linprog([1.0] * len(columns), supplied, [-wanted[size] for size in sizes], method="highs")
    assert float(solve_cutting_stock(wanted, LENGTH).cards) == pytest.approx(found.fun, rel=1e-9)


@given(WANTED)
def test_the_order_in_which_sizes_are_named_does_not_matter(wanted: dict[int, int]) -> None:
    turned = dict(reversed(wanted.items()))
    assert solve_cutting_stock(turned, LENGTH) == solve_cutting_stock(wanted, LENGTH)


def test_sizes_that_fill_cards_need_just_their_sum() -> None:
    assert solve_cutting_stock({500: 3, 250: 2}, 1000).cards == 2


@pytest.mark.parametrize("wanted", [{0: 1}, {1001: 1}, {500: 0}])
def test_a_size_that_no_card_holds_or_nobody_wants_is_refused(wanted: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="sizes are 1 to 1000, wanted at least once"):
        solve_cutting_stock(wanted, 1000)
