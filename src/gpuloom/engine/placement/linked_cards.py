"""Choosing cards by how well they are linked (scheduler 6.7)."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gpuloom.wire.pairscores import PairScores


def sum_scores(candidates: Sequence[str], chosen: Sequence[int], scores: PairScores) -> int:
    """Add up the links among the chosen positions, each pair from the earlier to the later one."""
    return sum(
        _score(candidates[one], candidates[other], scores)
        for place, one in enumerate(chosen)
        for other in chosen[place + 1 :]
    )


def choose_linked(candidates: Sequence[str], wanted: int, scores: PairScores) -> tuple[tuple[int, ...], int]:
    """Choose positions among more candidates than are wanted, and say by which total they won.

    One card: the one with the weakest links, so that the well linked ones stay for those who need several; its total is
    negated, so that larger always wins. Several: the set with the strongest links. The first of equals wins.
    """
    if wanted == 1:
        return min(
            (((position,), _loneliness(position, candidates, scores)) for position in range(len(candidates))),
            key=lambda policy: -policy[1],
        )
    if wanted >= len(candidates):
        every = tuple(range(len(candidates)))
        return every, sum_scores(candidates, every, scores)
    links = np.array([[_score(one, other, scores) for other in candidates] for one in candidates], np.int64)
    sets = np.array(list(combinations(range(len(candidates)), wanted)), np.intp)
    totals = sum(
        (links[sets[:, one], sets[:, other]] for one in range(wanted) for other in range(one + 1, wanted)),
        np.zeros(len(sets), np.int64),
    )
    best = int(np.argmax(totals))
    return tuple(sets[best].tolist()), int(totals[best])


def _loneliness(position: int, candidates: Sequence[str], scores: PairScores) -> int:
    return -sum(
        _score(candidates[position], other, scores) for place, other in enumerate(candidates) if place != position
    )


def _score(one: str, other: str, scores: PairScores) -> int:
    return 0 if one == other else scores.get(one, {}).get(other, 0)
