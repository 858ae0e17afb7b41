"""Asking a vendor's hooks: which cards on each of many nodes, why not, and what that is worth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.demand import Choice, Selection
from gpuloom.engine.family import Family
from gpuloom.engine.scores import sort_hands
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.hands import Chosen, Hands, Points, Terms
from gpuloom.model.nodecards import Facts
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.want import Want

_NOTHING_YET = np.zeros((0, 0), np.int64)


def make_terms(family: Family, selection: Selection, node_policy: str) -> Terms:
    """Say what choosing and scoring depend on beside the cards."""
    aware = selection.link_aware
    link_aware = family.profile.traits.link_aware if aware is None else aware
    return Terms(node_policy, selection.tenancy.app_class, link_aware=link_aware)


def choose(family: Family, hands: Hands, request: Request, terms: Terms) -> Ints:
    """Choose cards on every node of some hands, by the vendor's hook or as they are tried."""
    if family.selector is None:
        return hands.choose(np.zeros(hands.there.shape, np.int64))
    return family.selector.select(hands, Chosen(request, _NOTHING_YET), terms, family.profile)


def refuse(family: Family, hands: Hands, at: int, request: Request) -> Refusal:
    """Say why one node of some hands cannot serve."""
    if hands.wanted[at] > np.count_nonzero(hands.there[at]):
        return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
    if family.selector is None:
        return hands.refuse(at)
    return family.selector.refuse(hands, at, Chosen(request, _NOTHING_YET), family.profile)


def weigh(family: Family, hands: Hands, chosen: list[Chosen], terms: Terms, *, spread: bool) -> Points:
    """Return what is added to the score of each node."""
    if family.score is None:
        return np.zeros(len(hands.there))
    return family.score(hands, chosen, terms, family.profile) * family.sign[0 if spread else 1]


def deal(
    family: Family,
    choice: Choice,
    cards: Cards,
    want: Want,
    codes: NDArray[np.integer[Any]],
    there: Flags,
    facts: Sequence[Facts],
) -> Hands:
    """Put the cards of some nodes, given as columns with a row per node, into the form that hooks see."""
    wanted = np.full(len(there), want.cards, np.int64) if want.special is None else want.special.cards[:, 0]
    return Hands(
        cards=cards,
        there=there,
        codes=codes,
        reasons=family.rules.reasons,
        sort=lambda: sort_hands(cards, want, choice.card_policy.order, choice.weights, there),
        wanted=wanted,
        facts=facts,
    )


def deal_one(
    family: Family, choice: Choice, cards: Cards, want: Want, codes: NDArray[np.integer[Any]], facts: Facts
) -> Hands:
    """Put the cards of one node, given as columns, into the form that hooks see."""
    row = (None, slice(None))
    there = np.ones((1, len(cards)), bool)
    return deal(family, choice, cards.rows(row), want.rows(row), codes[row], there, [facts])
