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
    worth = _worth_of_rests(workload)
    return [Fraction(one, worth[WHOLE]) for one in worth]


def waste_of_rests(workload: Workload) -> Points:
    """Return ``L(r)`` for the rests 0 to 1000: thousandths of a card that will be wasted of a rest.

    Negative where a rest is worth more than its size.
    """
    worth = _worth_of_rests(workload)
    whole = worth[WHOLE]
    # Whole numbers of any size, divided once: exact until then, and quicker than fractions.
    return np.array([(rest * whole - WHOLE * one) / whole for rest, one in enumerate(worth)])


def _worth_of_rests(workload: Workload) -> list[int]:
    """Return what shares make of each rest, in a unit of its own: a whole card is worth the last."""
    return _solve(tuple(workload.sharing_sizes(LEAST_SIZE).items()))


# Tables of several vendors and copies of a cluster have a workload in common, and solving takes a while.
@lru_cache(16)
def _solve(sizes: tuple[tuple[int, int], ...]) -> list[int]:
    wanted = dict(sizes)
    if not wanted:
        return [int(rest == WHOLE) for rest in range(WHOLE + 1)]
    prices = solve_cutting_stock(wanted, WHOLE).prices
    common = lcm(*(price.denominator for price in prices.values()))
    worth = [price.numerator * (common // price.denominator) for price in prices.values()]
    return best_by_length(worth, list(prices), WHOLE)
