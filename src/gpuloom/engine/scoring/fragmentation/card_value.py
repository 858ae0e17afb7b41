"""What the rest of a card is worth to the sharing pods to come, and how much of it will be wasted."""

from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np

from gpuloom.engine.scoring.fragmentation.cutting_stock import best_by_length, solve_cutting_stock
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Points

LEAST_SIZE = 110
"""Shares below this fit almost anywhere, so they say nothing about what a rest is worth."""


def value_rests(workload: Workload) -> list[Fraction]:
    """Return ``V(r)`` for the rests 0 to 1000: the part of a whole card's worth that shares can make of it."""
    return list(_value_rests(tuple(workload.sharing_sizes(LEAST_SIZE).items())))


# Tables of several vendors and copies of a cluster have a workload in common, and solving takes a while.
@lru_cache(16)
def _value_rests(sizes: tuple[tuple[int, int], ...]) -> list[Fraction]:
    wanted = dict(sizes)
    if not wanted:
        return [Fraction(int(rest == WHOLE)) for rest in range(WHOLE + 1)]
    prices = solve_cutting_stock(wanted, WHOLE).prices
    common = lcm(*(price.denominator for price in prices.values()))
    worth = [price.numerator * (common // price.denominator) for price in prices.values()]
    best = best_by_length(worth, list(prices), WHOLE)
    return [Fraction(value, best[WHOLE]) for value in best]


def waste_of_rests(workload: Workload) -> Points:
    """Return ``L(r)`` for the rests 0 to 1000: thousandths of a card that will be wasted of a rest.

    Negative where a rest is worth more than its size.
    """
    return np.array([float(rest - WHOLE * value) for rest, value in enumerate(value_rests(workload))])
