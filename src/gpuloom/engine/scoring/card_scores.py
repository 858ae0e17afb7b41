"""HAMi's score of a card, and the orders in which the cards of a node are tried (scheduler 5.2, 5.3).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gpuloom.engine.request.policies import SortKey, Weights
from gpuloom.model.cards import Cards, Flags, Ints, Points
from gpuloom.model.request_columns import RequestColumns

_SCALE = 10.0


def score_cards(cards: Cards, required: RequestColumns, weights: Weights) -> Any:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (5.2).

    Returns a column for columns and a number for a card of plain numbers.
    """
    slots, cores, memory, usable = _terms(cards, required, weights)
    return np.float32(_SCALE * (slots + cores + memory) * usable)


def part_cards(cards: Cards, required: RequestColumns, weights: Weights) -> tuple[Points, Points, Points]:
    """Return what slots, cores and memory add to the score of each card, for people."""
    slots, cores, memory, usable = _terms(cards, required, weights)
    return _SCALE * slots * usable, _SCALE * cores * usable, _SCALE * memory * usable


def order_cards(cards: Cards, required: RequestColumns, order: tuple[SortKey, ...], weights: Weights) -> Ints:
    """Return the rows of one node in the order in which they are tried (5.3).

    Among equals the highest index comes first, then the card registered last.
    """
    keys = _sort_keys(cards, required, order, weights)
    return np.lexsort((-np.arange(len(cards)), -cards.index, *reversed(keys)))


def sort_matrix(
    cards: Cards, required: RequestColumns, order: tuple[SortKey, ...], weights: Weights, there: Flags
) -> Ints:
    """Return for each node, a row of columns, its columns in the same order; cells without a card come last."""
    keys = _sort_keys(cards, required, order, weights)
    later = np.broadcast_to(-np.arange(there.shape[1]), there.shape)
    return np.lexsort((later, -cards.index, *reversed(keys), ~there), axis=-1)


def sort_key(
    card: Cards, required: RequestColumns, order: tuple[SortKey, ...], weights: Weights, place: int
) -> tuple[Any, ...]:
    """Return what a card of plain numbers is tried by, smallest first, for the same order; its place breaks ties."""
    return (*_sort_keys(card, required, order, weights), -card.index, -place)


def _sort_keys(cards: Cards, required: RequestColumns, order: tuple[SortKey, ...], weights: Weights) -> list[Any]:
    """Return what cards are tried by, smallest first: columns, or numbers for a card of plain numbers."""
    return [_SORT_KEYS[key](cards, required, weights) for key in order]


_SORT_KEYS: Mapping[SortKey, Callable[[Cards, RequestColumns, Weights], Any]] = MappingProxyType(
    {
        "numa": lambda cards, _required, _weights: cards.numa,
        "-numa": lambda cards, _required, _weights: -cards.numa,
        "used": lambda cards, _required, _weights: cards.used_slots,
        "score": score_cards,
        "-score": lambda cards, required, weights: -score_cards(cards, required, weights),
    }
)


def _terms(cards: Cards, required: RequestColumns, weights: Weights) -> tuple[Points, Points, Points, Flags]:
    """Return ``weight x used / capacity`` of slots, cores and memory, and whether no capacity is zero."""
    need, count, total_cores, total_mib = required.score, cards.count, cards.total_cores, cards.total_memory_mib
    # Where a capacity is zero there is no score, so there it may be divided by anything.
    return (
        weights.slot * (cards.used_slots + need.slots) / (count + (count == 0)),
        weights.core * (cards.used_cores + need.cores) / (total_cores + (total_cores == 0)),
        weights.memory * (cards.used_memory_mib + need.memory_mib) / (total_mib + (total_mib == 0)),
        (count != 0) & (total_cores != 0) & (total_mib != 0),
    )
