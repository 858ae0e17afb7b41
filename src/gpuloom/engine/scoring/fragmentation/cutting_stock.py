"""The cutting-stock program: how few cards hold all shares, and what each share is worth in them.

Over all patterns (multisets of sizes that one card holds) minimise the number of cards so that each size is cut as
often as it is wanted, cards divisible. Its dual prices say what one more share of a size costs in cards. Solved by
column generation: a revised simplex with one row a size, to which a knapsack proposes patterns. All arithmetic is
exact, and ties are broken lexicographically, so it ends, and equal input gives equal prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm


@dataclass(frozen=True, slots=True)
class CuttingStock:
    """The solved program.

    cards   how many cards hold all shares
    prices  by size, the part of a card that one more share of it costs
    """

    cards: Fraction
    prices: Mapping[int, Fraction]


def solve_cutting_stock(wanted: Mapping[int, int], length: int) -> CuttingStock:
    """Solve for sizes with the number of times that each is wanted, and cards of a length in the same unit.

    Raises ValueError for a size that no card holds, and for one that is wanted less than once.
    """
    for size, times in wanted.items():
        if not 0 < size <= length or times < 1:
            raise ValueError(f"a share of {size} wanted {times} times: sizes are 1 to {length}, wanted at least once")
    sizes = sorted(wanted)
    unit = gcd(length, *sizes)
    rows = [size // unit for size in sizes]
    basis = _Basis(rows, [wanted[size] for size in sizes], length // unit)
    while (column := _propose(basis.prices(), rows, length // unit)) is not None:
        basis.enter(*column)
    return CuttingStock(basis.cards(), dict(zip(sizes, basis.prices(), strict=True)))


class _Basis:
    """The rows of the simplex: the inverse of the basis, its values, and what its columns cost."""

    def __init__(self, sizes: list[int], wanted: list[int], length: int) -> None:
        """Begin with cards of one size each."""
        often = [length // size for size in sizes]
        self._inverse = [
            [Fraction(int(row == at), often[row]) for at in range(len(sizes))] for row in range(len(sizes))
        ]
        self._values = [Fraction(times, held) for times, held in zip(wanted, often, strict=True)]
        self._costs = [1] * len(sizes)

    def cards(self) -> Fraction:
        return sum((cost * value for cost, value in zip(self._costs, self._values, strict=True)), Fraction())

    def prices(self) -> list[Fraction]:
        paid = [row for row, cost in zip(self._inverse, self._costs, strict=True) if cost]
        return [sum((row[at] for row in paid), Fraction()) for at in range(len(self._costs))]

    def enter(self, pattern: list[int], cost: int) -> None:
        """Let a column in for the one that reaches zero first."""
        there = [at for at, times in enumerate(pattern) if times]
        shares = [sum((row[at] * pattern[at] for at in there), Fraction()) for row in self._inverse]
        leaving = min(
            (at for at, share in enumerate(shares) if share > 0),
            key=lambda at: [self._values[at] / shares[at], *(entry / shares[at] for entry in self._inverse[at])],
        )
        pivot_row = [entry / shares[leaving] for entry in self._inverse[leaving]]
        pivot_value = self._values[leaving] / shares[leaving]
        for at, share in enumerate(shares):
            if share and at != leaving:
                self._inverse[at] = [
                    mine - share * its if its else mine for mine, its in zip(self._inverse[at], pivot_row, strict=True)
                ]
                self._values[at] -= share * pivot_value
        self._inverse[leaving], self._values[leaving], self._costs[leaving] = pivot_row, pivot_value, cost


def _propose(prices: list[Fraction], sizes: list[int], length: int) -> tuple[list[int], int] | None:
    """Return the column that saves most and its cost, None when none saves: then the basis is the best."""
    cheapest = min(range(len(prices)), key=prices.__getitem__)
    if prices[cheapest] < 0:
        # More of a size than is wanted.
        return [-int(at == cheapest) for at in range(len(prices))], 0
    common = lcm(*(price.denominator for price in prices))
    worth = [price.numerator * (common // price.denominator) for price in prices]
    pattern, total = fill_best(worth, sizes, length)
    return (pattern, 1) if total > common else None


def fill_best(worth: list[int], sizes: list[int], length: int) -> tuple[list[int], int]:
    """Return the multiset of sizes of the greatest worth that the length holds, and that worth."""
    best = best_by_length(worth, sizes, length)
    pattern, left = [0] * len(sizes), length
    while best[left]:
        at = next(
            (at for at, size in enumerate(sizes) if size <= left and best[left - size] + worth[at] == best[left]), None
        )
        if at is None:
            left -= 1
        else:
            pattern[at] += 1
            left -= sizes[at]
    return pattern, best[length]


def best_by_length(worth: list[int], sizes: list[int], length: int) -> list[int]:
    """Return for every length from 0 the greatest worth of a multiset of sizes that it holds."""
    best = [0] * (length + 1)
    items = sorted(zip(sizes, worth, strict=True))
    for here in range(1, length + 1):
        most = best[here - 1]
        for size, value in items:
            if size > here:
                break
            most = max(most, best[here - size] + value)
        best[here] = most
    return best
