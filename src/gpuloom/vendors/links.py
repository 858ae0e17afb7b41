"""Choosing and scoring cards by the groups that they are linked in: networks, boards (vendors 4.8, 4.13)."""

import numpy as np

from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen, HookTerms, first_turns, group_sizes
from gpuloom.model.cards import Flags, Ints, Points
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.vendors.profile import Profile


def choose_groups(matrix: CardMatrix, _chosen: Chosen, _terms: HookTerms, _profile: Profile) -> Ints:
    """Choose several cards from as few groups as possible: the largest group first, then the next.

    Where a card is in no group, or there is nothing to choose, cards are taken as they are tried.
    """
    groups, fits = matrix.cards.group, matrix.fits
    has_choice = (np.count_nonzero(fits, axis=1) > matrix.wanted) & (matrix.wanted > 1) & _all_grouped(matrix)
    if not has_choice.any():
        return matrix.choose()
    size = np.where(has_choice[:, None], -group_sizes(groups, fits), 0)
    first = np.where(has_choice[:, None], first_turns(groups, fits, matrix.turn), 0)
    return matrix.choose(size, first)


def choose_pairs(matrix: CardMatrix) -> Ints:
    """Choose both cards of as many pairs as are wanted; a pair with a card that cannot serve is left alone."""
    order, available = _order_pairs(matrix)
    return matrix.keep(order, available)


def refuse_pairs(matrix: CardMatrix, at: int) -> Refusal:
    """Refuse a node with too few pairs, in HAMi's way: the total is how many cards are wanted."""
    _, available = _order_pairs(matrix)
    wanted = int(matrix.wanted[at])
    taken = min(int(available[at]), wanted)
    return Refusal({**matrix.count(at), Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: taken}, wanted)


def _order_pairs(matrix: CardMatrix) -> tuple[Ints, Ints]:
    pairs = matrix.cards.index // 2
    whole = matrix.fits & (group_sizes(pairs, matrix.fits) == 2)
    first = first_turns(pairs, whole, matrix.turn)
    return np.lexsort((matrix.turn, first, ~whole), axis=-1), np.count_nonzero(whole, axis=1)


def score_groups(matrix: CardMatrix, chosen: list[Chosen], weight: float) -> Points:
    """Score each container by the part of its cards that is in one group; nothing where a card is in no group."""
    points = np.zeros(len(matrix.there))
    for one in chosen:
        taken = one.columns != NO_CARD
        groups = np.take_along_axis(matrix.cards.group, np.maximum(one.columns, 0), axis=1)
        largest = group_sizes(groups, taken).max(axis=1, initial=0, where=taken)
        points += weight * largest / np.maximum(np.count_nonzero(taken, axis=1), 1)
    return np.where(_all_grouped(matrix), points, 0.0)


def _all_grouped(matrix: CardMatrix) -> Flags:
    return np.asarray(((matrix.cards.group > 0) | ~matrix.there).all(axis=1), np.bool_)
