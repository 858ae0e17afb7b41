"""Choosing cards by how well they are linked (scheduler 6.7)."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from gpuloom.model.cards import Ints
from gpuloom.wire.pairscores import PairScores

MOST_SETS = 12_870
"""So many sets are all looked at: those of 8 among 16 cards. Of 56 instances of divided cards there are a billion."""
MOST_CANDIDATES = 128
"""Where not all sets are looked at, only so many candidates are: more than 16 cards have instances."""

_LEAST = np.iinfo(np.int64).min


def choose_linked(candidates: Sequence[str], wanted: int, scores: PairScores) -> tuple[tuple[int, ...], int]:
    """Choose positions among more candidates than are wanted, and say by which total they won.

    One card: the one with the weakest links, so that the well linked ones stay for those who need several; its total is
    negated, so that larger always wins. Several: the set with the strongest links, or a strong one where there are too
    many sets. The first of equals wins.
    """
    if wanted > 1 and comb(len(candidates), wanted) > MOST_SETS:
        candidates = candidates[: max(MOST_CANDIDATES, wanted)]
    links = _read_links(candidates, scores)
    if wanted == 1:
        totals = -links.sum(axis=1)
        best = int(np.argmax(totals))
        return (best,), int(totals[best])
    if wanted >= len(candidates):
        return tuple(range(len(candidates))), int(np.triu(links).sum())
    return _choose_among_all(links, wanted) if comb(len(candidates), wanted) <= MOST_SETS else _grow(links, wanted)


def _choose_among_all(links: Ints, wanted: int) -> tuple[tuple[int, ...], int]:
    sets = np.array(list(combinations(range(len(links)), wanted)), np.intp)
    totals = sum(
        (links[sets[:, one], sets[:, other]] for one in range(wanted) for other in range(one + 1, wanted)),
        np.zeros(len(sets), np.int64),
    )
    best = int(np.argmax(totals))
    return tuple(sets[best].tolist()), int(totals[best])


def _grow(links: Ints, wanted: int) -> tuple[tuple[int, ...], int]:
    """Begin with each candidate, add one after the other that is linked best with those before, and take the best set.

    The time is that of a few large matrices, whatever the scores say.
    """
    upper = np.triu(links)
    both, lines = upper + upper.T, np.arange(len(links))
    gains, is_free, totals = both.copy(), ~np.eye(len(links), dtype=np.bool_), np.zeros(len(links), np.int64)
    for _ in range(wanted - 1):
        added = np.where(is_free, np.maximum(gains, _LEAST + 1), _LEAST).argmax(axis=1)
        totals += gains[lines, added]
        gains += both[added]
        is_free[lines, added] = False
    best = int(np.argmax(totals))
    return tuple(np.flatnonzero(~is_free[best]).tolist()), int(totals[best])


def _read_links(candidates: Sequence[str], scores: PairScores) -> Ints:
    """Return how well each candidate is linked to each other; instances of one card are not linked to each other."""
    positions: dict[str, list[int]] = {}
    for position, uuid in enumerate(candidates):
        positions.setdefault(uuid, []).append(position)
    links = np.zeros((len(candidates), len(candidates)), np.int64)
    for one in positions.keys() & scores.keys():
        for other in scores[one].keys() & positions.keys() - {one}:
            links[np.ix_(positions[one], positions[other])] = scores[one][other]
    return links
