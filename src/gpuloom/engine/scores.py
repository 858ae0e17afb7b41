"""HAMi's scores and orders: which card of a node, which node of the cluster (scheduler 5).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Cards, Ints
from gpuloom.model.want import Want

Scores = NDArray[np.float32]

BINPACK = "binpack"
SPREAD = "spread"
_SCALE = 10.0


def score_cards(cards: Cards, want: Want) -> Scores:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (5.2)."""
    return _sum_of_ratios(
        (cards.used_slots + want.cards, cards.count),
        (cards.used_cores + want.score_cores, cards.total_cores),
        (cards.used_memory_mib + want.score_memory_mib, cards.total_memory_mib),
    )


def score_nodes(cards: Cards, starts: Ints) -> Scores:
    """Score each node as full as it is now, without the request, over all its cards (5.4).

    starts: first row of each node and, last, the number of rows.
    """
    columns = (
        (cards.used_slots, cards.count),
        (cards.used_cores, cards.total_cores),
        (cards.used_memory_mib, cards.total_memory_mib),
    )
    return _sum_of_ratios(*((_sum_by_node(used, starts), _sum_by_node(total, starts)) for used, total in columns))


def order_cards(cards: Cards, want: Want, policy: str) -> Ints:
    """Return the rows of one node in the order in which HAMi tries them (5.3).

    ``binpack`` takes the lowest NUMA node first and there the fullest card, every other word the highest NUMA node and
    there the emptiest card. Among equals the highest index comes first, then the card registered last.
    """
    score = score_cards(cards, want)
    registered = np.arange(len(cards))
    if policy == BINPACK:
        return np.lexsort((-registered, -cards.index, -score, cards.numa))
    return np.lexsort((-registered, -cards.index, score, -cards.numa))


def order_nodes(candidates: Ints, scores: Scores, policy: str) -> Ints:
    """Return the candidates worst first, best last; among equals the one that was named first is better (5.5).

    candidates: positions of nodes in the order of the request; scores: by position.
    """
    backwards = candidates[::-1]
    rank = -scores[backwards] if policy == SPREAD else scores[backwards]
    return backwards[np.argsort(rank, kind="stable")]


def _sum_of_ratios(*parts: tuple[Ints, Ints]) -> Scores:
    total = np.zeros(len(parts[0][0]))
    usable = np.ones(len(total), bool)
    for used, capacity in parts:
        usable &= capacity != 0
        total += used / np.where(capacity == 0, 1, capacity)
    return np.where(usable, _SCALE * total, 0.0).astype(np.float32)


def _sum_by_node(column: Ints, starts: Ints) -> Ints:
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(column)))
    return np.asarray(running[starts[1:]] - running[starts[:-1]], np.int64)
