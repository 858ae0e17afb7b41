"""HAMi's scores and orders: which card of a node, which node of the cluster (scheduler 5).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.policies import SortKey, Weights
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.want import Want

Scores = NDArray[np.float32]
Points = NDArray[np.float64]

_SCALE = 10.0


def score_cards(cards: Cards, want: Want, weights: Weights) -> Any:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (scheduler 5.2).

    Returns a column for columns and a number for a card of plain numbers.
    """
    slots, cores, memory, usable = _terms(cards, want, weights)
    return np.float32(_SCALE * (slots + cores + memory) * usable)


def part_cards(cards: Cards, want: Want, weights: Weights) -> tuple[Points, Points, Points]:
    """Return what slots, cores and memory add to the score of each card, for people."""
    slots, cores, memory, usable = _terms(cards, want, weights)
    return _SCALE * slots * usable, _SCALE * cores * usable, _SCALE * memory * usable


def score_node(used: Sequence[Any], total: Sequence[Any]) -> Any:
    """Score a node as full as it is now, without the request (scheduler 5.4).

    used, total: slots, cores and memory, each summed over all cards of the node; columns for many nodes.
    """
    # Where a sum is zero there is no score, so there it may be divided by anything.
    slots, cores, memory = (part / (whole + (whole == 0)) for part, whole in zip(used, total, strict=True))
    return np.float32(_SCALE * (slots + cores + memory) * ((total[0] != 0) & (total[1] != 0) & (total[2] != 0)))


def order_cards(cards: Cards, want: Want, order: tuple[SortKey, ...], weights: Weights) -> Ints:
    """Return the rows of one node in the order in which they are tried (scheduler 5.3).

    Among equals the highest index comes first, then the card registered last.
    """
    keys = _sort_keys(cards, want, order, weights)
    return np.lexsort((-np.arange(len(cards)), -cards.index, *reversed(keys)))


def sort_hands(cards: Cards, want: Want, order: tuple[SortKey, ...], weights: Weights, there: Flags) -> Ints:
    """Return for each node, a row of columns, its columns in the same order; cells without a card come last."""
    keys = _sort_keys(cards, want, order, weights)
    later = np.broadcast_to(-np.arange(there.shape[1]), there.shape)
    return np.lexsort((later, -cards.index, *reversed(keys), ~there), axis=-1)


def sort_key(card: Cards, want: Want, order: tuple[SortKey, ...], weights: Weights, place: int) -> tuple[Any, ...]:
    """Return what a card of plain numbers is tried by, smallest first, for the same order; its place breaks ties."""
    return (*_sort_keys(card, want, order, weights), -card.index, -place)


def _sort_keys(cards: Cards, want: Want, order: tuple[SortKey, ...], weights: Weights) -> list[Any]:
    """Return what cards are tried by, smallest first: columns, or numbers for a card of plain numbers."""
    return [_SORT_KEYS[key](cards, want, weights) for key in order]


_SORT_KEYS: Mapping[SortKey, Callable[[Cards, Want, Weights], Any]] = MappingProxyType(
    {
        "numa": lambda cards, _want, _weights: cards.numa,
        "-numa": lambda cards, _want, _weights: -cards.numa,
        "used": lambda cards, _want, _weights: cards.used_slots,
        "score": score_cards,
        "-score": lambda cards, want, weights: -score_cards(cards, want, weights),
    }
)


def _terms(cards: Cards, want: Want, weights: Weights) -> tuple[Points, Points, Points, Flags]:
    """Return ``weight x used / capacity`` of slots, cores and memory, and whether no capacity is zero."""
    need, count, total_cores, total_mib = want.score, cards.count, cards.total_cores, cards.total_memory_mib
    # Where a capacity is zero there is no score, so there it may be divided by anything.
    return (
        weights.slot * (cards.used_slots + need.slots) / (count + (count == 0)),
        weights.core * (cards.used_cores + need.cores) / (total_cores + (total_cores == 0)),
        weights.memory * (cards.used_memory_mib + need.memory_mib) / (total_mib + (total_mib == 0)),
        (count != 0) & (total_cores != 0) & (total_mib != 0),
    )
