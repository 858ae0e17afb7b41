"""HAMi's scores and orders: which card of a node, which node of the cluster (scheduler 5).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.policies import SortKey, Weights
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.want import Want

Scores = NDArray[np.float32]
Points = NDArray[np.float64]

_SCALE = 10.0


def score_cards(cards: Cards, want: Want, weights: Weights) -> Scores:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (5.2)."""
    slots, cores, memory, usable = _terms(cards, want, weights)
    return (_SCALE * (slots + cores + memory) * usable).astype(np.float32)


def part_cards(cards: Cards, want: Want, weights: Weights) -> tuple[Points, Points, Points]:
    """Return what slots, cores and memory add to the score of each card, for people."""
    slots, cores, memory, usable = _terms(cards, want, weights)
    return _SCALE * slots * usable, _SCALE * cores * usable, _SCALE * memory * usable


def score_node(used: Sequence[int], total: Sequence[int]) -> np.float32:
    """Score a node as full as it is now, without the request (5.4).

    used, total: slots, cores and memory, each summed over all cards of the node.
    """
    if not all(total):
        return np.float32(0.0)
    return np.float32(_SCALE * sum(int(have) / int(room) for have, room in zip(used, total, strict=True)))


def order_cards(cards: Cards, want: Want, order: tuple[SortKey, ...], weights: Weights) -> Ints:
    """Return the rows of one node in the order in which they are tried (5.3).

    Among equals the highest index comes first, then the card registered last.
    """
    columns: dict[str, NDArray[Any]] = {
        "numa": cards.numa,
        "used": cards.used_slots,
        "score": score_cards(cards, want, weights),
    }
    keys = [-columns[key[1:]] if key.startswith("-") else columns[key] for key in order]
    return np.lexsort((-np.arange(len(cards)), -cards.index, *reversed(keys)))


def _terms(cards: Cards, want: Want, weights: Weights) -> tuple[Points, Points, Points, Flags]:
    """Return ``weight x used / capacity`` of slots, cores and memory, and whether no capacity is zero."""
    need = want.score
    slots, cores, memory = (
        weight * used / (capacity + (capacity == 0))
        for weight, used, capacity in (
            (weights.slot, cards.used_slots + need.slots, cards.count),
            (weights.core, cards.used_cores + need.cores, cards.total_cores),
            (weights.memory, cards.used_memory_mib + need.memory_mib, cards.total_memory_mib),
        )
    )
    return slots, cores, memory, (cards.count != 0) & (cards.total_cores != 0) & (cards.total_memory_mib != 0)
