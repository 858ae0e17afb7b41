"""Choosing and scoring cards by the groups that they are linked in: networks, boards (vendors 4.8, 4.13)."""

import numpy as np

from gpuloom.model.cards import Flags, Ints
from gpuloom.model.hands import NO_CARD, Chosen, Hands, Points, Terms, first_turns, group_sizes
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.vendors.profile import Profile


def choose_groups(hands: Hands, _chosen: Chosen, _terms: Terms, _profile: Profile) -> Ints:
    """Choose several cards from as few groups as possible: the largest group first, then the next.

    Where a card is in no group, or there is nothing to choose, cards are taken as they are tried.
    """
    groups, fits = hands.cards.group, hands.fits
    has_choice = (np.count_nonzero(fits, axis=1) > hands.wanted) & (hands.wanted > 1) & _all_grouped(hands)
    if not has_choice.any():
        return hands.choose()
    size = np.where(has_choice[:, None], -group_sizes(groups, fits), 0)
    first = np.where(has_choice[:, None], first_turns(groups, fits, hands.turn), 0)
    return hands.choose(size, first)


def choose_pairs(hands: Hands) -> Ints:
    """Choose both cards of as many pairs as are wanted; a pair with a card that cannot serve is left alone."""
    order, available = _order_pairs(hands)
    return hands.keep(order, available)


def refuse_pairs(hands: Hands, at: int) -> Refusal:
    """Refuse a node with too few pairs, in HAMi's way: the total is how many cards are wanted."""
    _, available = _order_pairs(hands)
    wanted = int(hands.wanted[at])
    taken = min(int(available[at]), wanted)
    return Refusal({**hands.count(at), Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: taken}, wanted)


def _order_pairs(hands: Hands) -> tuple[Ints, Ints]:
    pairs = hands.cards.index // 2
    whole = hands.fits & (group_sizes(pairs, hands.fits) == 2)
    first = first_turns(pairs, whole, hands.turn)
    return np.lexsort((hands.turn, first, ~whole), axis=-1), np.count_nonzero(whole, axis=1)


def score_groups(hands: Hands, chosen: list[Chosen], weight: float) -> Points:
    """Score each container by the part of its cards that is in one group; nothing where a card is in no group."""
    points = np.zeros(len(hands.there))
    for one in chosen:
        taken = one.columns != NO_CARD
        groups = np.take_along_axis(hands.cards.group, np.maximum(one.columns, 0), axis=1)
        largest = group_sizes(groups, taken).max(axis=1, initial=0, where=taken)
        points += weight * largest / np.maximum(np.count_nonzero(taken, axis=1), 1)
    return np.where(_all_grouped(hands), points, 0.0)


def _all_grouped(hands: Hands) -> Flags:
    return np.asarray(((hands.cards.group > 0) | ~hands.there).all(axis=1), np.bool_)
