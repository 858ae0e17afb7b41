"""Which pods would have to leave so that a node's cards serve: small sets, found by the rules themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

import numpy as np

from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.filtering.rules import adjust_cards
from gpuloom.engine.state.usage import Usage
from gpuloom.model.cards import Flags

Uids = frozenset[str]

_MOST_HOLDERS = 8
"""Of a card with more pods, one leaves, or the first so many in the order given: there would be too many sets."""
_MOST_VISITS = 20_000
MOST_TRIALS = 2_000
"""So many sets of pods are tried at most; a plan found after them may not be the one with the fewest moves."""


@dataclass(frozen=True, slots=True)
class PodSets:
    """Pods whose leaving makes room: a card, or enough cards of a node.

    by_size  the sets, fewest pods first
    tried    every set of at most so many pods was looked at; infinite for all
    """

    by_size: Sequence[Uids]
    tried: float = inf


@dataclass(frozen=True, slots=True)
class MovableHolder:
    """A pod that may move, and what it holds of cards, by row of the table."""

    uid: str
    usage: Mapping[int, Usage]


def find_card_sets(matrix: RuleMatrix, rows: Sequence[int], holders: Sequence[MovableHolder]) -> list[PodSets]:
    """Return for every card that pods can make room on the sets that do, none of them part of another.

    rows  of one node's cards that would do if nobody were on them

    Each card is looked at alone; who only decides about several cards together has to be asked afterwards.
    """
    on_card = {row: [one for one in holders if row in one.usage] for row in rows}
    trials = [(row, some) for row, there in on_card.items() for some in _subsets(there)]
    fits = _fit(matrix, trials)
    found: dict[int, list[Uids]] = {}
    for (row, some), does in zip(trials, fits.tolist(), strict=True):
        if does:
            uids = frozenset(one.uid for one in some)
            smaller = found.setdefault(row, [])
            if not any(known <= uids for known in smaller):
                smaller.append(uids)
    return [PodSets(sets, inf if len(on_card[row]) <= _MOST_HOLDERS else 1) for row, sets in found.items()]


def _subsets(holders: Sequence[MovableHolder]) -> Iterator[tuple[MovableHolder, ...]]:
    """Give sets of pods, small ones first."""
    if len(holders) > _MOST_HOLDERS:
        yield ()
        yield from ((one,) for one in holders)
        yield from (tuple(holders[:count]) for count in range(2, len(holders) + 1))
    else:
        for count in range(len(holders) + 1):
            yield from combinations(holders, count)


def _fit(matrix: RuleMatrix, trials: Sequence[tuple[int, Sequence[MovableHolder]]]) -> Flags:
    """Ask the rules about cards without some of their pods, all at once."""
    places = np.fromiter((row for row, _ in trials), np.int64, len(trials))
    gone = [_sum_up(row, some) for row, some in trials]
    cards, required = matrix.table.cards.rows(places), matrix.required.rows(places)
    cards.used_slots[:] -= np.array([one.slots for one in gone], np.int64)
    cards.used_memory_mib[:] -= np.array([one.memory_mib for one in gone], np.int64)
    cards.used_cores[:] -= np.array([one.cores for one in gone], np.int64)
    adjusted = adjust_cards(cards, required)
    fits = np.ones(len(trials), np.bool_)
    for check in matrix.checks:
        if check.rule.applies(required):
            fits &= ~np.asarray(check.rule.rejects(adjusted, required), np.bool_)
    return fits


def _sum_up(row: int, holders: Sequence[MovableHolder]) -> Usage:
    total = Usage()
    for one in holders:
        total += one.usage[row]
    return total


def combine_cards(sets: Sequence[PodSets], cards: int, most: int) -> PodSets:
    """Return the sets of at most ``most`` pods whose leaving makes so many cards serve, none part of another.

    sets  by card, as :func:`find_card_sets` gives them

    Looks at a bounded number of combinations, those of cards with few pods first.
    """
    in_order = sorted((one.by_size for one in sets), key=lambda one: (len(one[0]), sorted(one[0])))
    found: set[Uids] = set()
    visits = 0
    stack: list[tuple[int, int, Uids]] = [(0, cards, frozenset())]
    while stack and visits < _MOST_VISITS:
        visits += 1
        position, missing, union = stack.pop()
        if not missing:
            found.add(union)
        elif len(in_order) - position >= missing:
            stack.append((position + 1, missing, union))
            with_card = (union | some for some in in_order[position])
            stack += ((position + 1, missing - 1, one) for one in with_card if len(one) <= most)
    minimal: list[Uids] = []
    for one in sorted(found, key=lambda uids: (len(uids), sorted(uids))):
        if len(minimal) == MOST_TRIALS:
            # To compare those with each other that are never tried would take seconds.
            break
        if not any(known <= one for known in minimal):
            minimal.append(one)
    return PodSets(minimal, 0 if stack else min((one.tried for one in sets), default=inf))


def count_least(sets: Sequence[PodSets], cards: int, breadths: Mapping[str, int]) -> int | None:
    """Return a number of pods of which at least so many have to leave; None where no leaving is enough.

    breadths  on how many of the node's cards each pod is: one that leaves may help several
    """
    if len(sets) < cards:
        return None
    broadest = max(breadths.values(), default=1)
    least = sorted(min(_weigh(one, breadths), (one.tried + 1) / broadest) for one in sets)
    return int(np.ceil(sum(least[:cards]) - 1e-9))


def _weigh(sets: PodSets, breadths: Mapping[str, int]) -> float:
    """Return the least that a card takes of pods, of which each counts in parts for the cards that it is on."""
    return min(sum(1 / breadths[uid] for uid in uids) for uids in sets.by_size)
