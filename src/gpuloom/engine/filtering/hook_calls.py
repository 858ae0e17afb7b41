"""Asking a vendor's hooks: which cards on each of many nodes, why not, and what that is worth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.request.demand import CardSelector, PlacementPreferences
from gpuloom.engine.scoring.card_order import sort_matrix
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.model.card_matrix import CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Cards, Flags, Ints, Points, RuleCodes
from gpuloom.model.nodecards import Facts
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import RequestColumns

UNSUPPORTED = 255
"""In place of the position of a rule: the card's node cannot serve such a request at all."""
_NOTHING_YET = np.zeros((0, 0), np.int64)


def make_terms(compiled: CompiledProfile, selector: CardSelector, node_word: str) -> HookTerms:
    """Say what choosing and scoring depend on beside the cards."""
    aware = selector.link_aware
    link_aware = compiled.profile.traits.link_aware if aware is None else aware
    return HookTerms(node_word, selector.tenancy.app_class, link_aware=link_aware)


def choose_cards(compiled: CompiledProfile, matrix: CardMatrix, request: Request, terms: HookTerms) -> Ints:
    """Choose cards on every node of a matrix, by the vendor's hook or as they are tried."""
    if compiled.selection_hook is None:
        return matrix.choose(np.zeros(matrix.there.shape, np.int64))
    return compiled.selection_hook.select(matrix, Chosen(request, _NOTHING_YET), terms, compiled.profile)


def explain_refusal(compiled: CompiledProfile, matrix: CardMatrix, at: int, request: Request) -> Refusal:
    """Say why one node of a matrix cannot serve."""
    total = int(np.count_nonzero(matrix.there[at]))
    if matrix.wanted[at] > total:
        return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
    if matrix.unsupported is not None and matrix.unsupported[at]:
        return Refusal({Reason.MODE_NOT_FIT: 1}, total)
    if compiled.selection_hook is None:
        return matrix.refuse(at)
    return compiled.selection_hook.refuse(matrix, at, Chosen(request, _NOTHING_YET), compiled.profile)


def score_extra(
    compiled: CompiledProfile, matrix: CardMatrix, chosen: list[Chosen], terms: HookTerms, policy: NodePolicy
) -> Points:
    """Return what is added to the score of each node."""
    if compiled.score is None:
        return np.zeros(len(matrix.there))
    return compiled.score(matrix, chosen, terms, compiled.profile) * compiled.sign[0 if policy.sign < 0 else 1]


def make_matrix(
    compiled: CompiledProfile,
    preferences: PlacementPreferences,
    cards: Cards,
    required: RequestColumns,
    codes: NDArray[np.integer[Any]],
    there: Flags,
    facts: Sequence[Facts],
) -> CardMatrix:
    """Put the cards of some nodes, given as columns with a row per node, into the form that hooks see."""
    vendor_columns = required.vendor_columns
    wanted = np.full(len(there), required.cards, np.int64) if vendor_columns is None else vendor_columns.cards[:, 0]
    return CardMatrix(
        cards=cards,
        there=there,
        codes=codes,
        reasons=compiled.rules.reasons,
        sort=lambda: sort_matrix(cards, required, preferences.card_policy.order, preferences.weights, there),
        wanted=wanted,
        facts=facts,
        unsupported=None if vendor_columns is None else vendor_columns.unsupported[:, 0],
    )


def mark_unsupported(codes: RuleCodes, required: RequestColumns) -> RuleCodes:
    """Reject all cards of nodes that cannot serve such a request at all."""
    if required.vendor_columns is not None:
        codes[required.vendor_columns.unsupported] = UNSUPPORTED
    return codes
