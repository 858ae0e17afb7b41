"""From a request to need columns: what each card would have to give (scheduler 6.3 rows 8 and 9, 5.2)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.demand import Selection
from gpuloom.engine.options import ScoreSlots
from gpuloom.model.cards import Cards, Flags
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.want import Headroom, ScoreNeed, Want, percentage_of

MOST_CORES = 100
"""A container asks for at most one whole card's cores."""


def make_want(
    cards: Cards,
    uuids: Sequence[str],
    kinds: Sequence[tuple[str, str]],
    request: Request,
    selection: Selection,
    *,
    mutex: bool,
    headroom: Headroom,
    score_slots: ScoreSlots,
) -> Want:
    """Work out what a request needs of cards with these ids; ``kinds`` are the table's.

    Amount wins over percentage in what a card must give, percentage over amount in the score.
    """
    total_mib = cards.total_memory_mib
    # One number seen as a column: shapes are remembered, and most ask for the same of every card.
    amount = np.broadcast_to(np.int64(request.memory_mib), len(total_mib))
    by_percentage = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
    share = percentage_of(total_mib, request.memory_percentage) if by_percentage else amount
    return Want(
        cards=request.cards,
        cores=min(request.cores, MOST_CORES),
        memory_mib=amount if request.memory_mib else share,
        refused_kind=_refuse_kinds(cards, kinds, selection),
        refused_uuid=_refuse_uuids(uuids, selection),
        mutex=mutex,
        headroom=headroom,
        score=ScoreNeed(slots=request.cards if score_slots == "nums" else 1, cores=request.cores, memory_mib=share),
    )


def _refuse_kinds(cards: Cards, kinds: Sequence[tuple[str, str]], selection: Selection) -> Flags:
    refused = np.array([not selection.accepts_kind(model, mode) for model, mode in kinds], bool)
    return refused[cards.kind] if refused.any() else _nobody(len(cards))


def _refuse_uuids(uuids: Sequence[str], selection: Selection) -> Flags:
    if not selection.names_uuids:
        return _nobody(len(uuids))
    return np.fromiter((not selection.accepts_uuid(uuid) for uuid in uuids), bool, len(uuids))


def _nobody(count: int) -> Flags:
    return np.broadcast_to(np.False_, count)
