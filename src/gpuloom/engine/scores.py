"""HAMi's scores and orders: which card of a node, which node of the cluster (scheduler 5).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.policies import SortKey, Weights
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.want import Want

Scores = NDArray[np.float32]

_SCALE = 10.0


def score_cards(cards: Cards, want: Want, weights: Weights) -> Scores:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (5.2)."""
    need = want.score
    return _weigh(
        (weights.slot, cards.used_slots + need.slots, cards.count),
        (weights.core, cards.used_cores + need.cores, cards.total_cores),
        (weights.memory, cards.used_memory_mib + need.memory_mib, cards.total_memory_mib),
    )


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


def _weigh(*parts: tuple[int, Ints, Ints]) -> Scores:
    """Sum ``weight x used / capacity``; nothing where a capacity is zero."""
    terms = [weight * used / (capacity + (capacity == 0)) for weight, used, capacity in parts]
    usable = (parts[0][2] != 0) & (parts[1][2] != 0) & (parts[2][2] != 0)
    return (_SCALE * (terms[0] + terms[1] + terms[2]) * usable).astype(np.float32)
