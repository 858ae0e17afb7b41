"""From a request to need columns: what each card would have to give (scheduler 6.3 rows 8 and 9, 5.2)."""

import numpy as np

from gpuloom.engine.demand import Selection
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.table import CardTable
from gpuloom.model.cards import Flags
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.want import Headroom, ScoreNeed, Want, percentage_of

MOST_CORES = 100
"""A container asks for at most one whole card's cores."""


def make_want(
    table: CardTable,
    rows: slice,
    request: Request,
    selection: Selection,
    *,
    mutex: bool,
    headroom: Headroom,
    score_slots: ScoreSlots,
) -> Want:
    """Work out what a request needs of some rows of the table.

    Amount wins over percentage in what a card must give, percentage over amount in the score.
    """
    total_mib = table.cards.total_memory_mib[rows]
    amount = np.full(len(total_mib), request.memory_mib, np.int64)
    by_percentage = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
    share = percentage_of(total_mib, request.memory_percentage) if by_percentage else amount
    return Want(
        cards=request.cards,
        cores=min(request.cores, MOST_CORES),
        memory_mib=amount if request.memory_mib else share,
        refused_kind=_refuse_kinds(table, rows, selection),
        refused_uuid=_refuse_uuids(table, rows, selection),
        mutex=mutex,
        headroom=headroom,
        score=ScoreNeed(slots=request.cards if score_slots == "nums" else 1, cores=request.cores, memory_mib=share),
    )


def _refuse_kinds(table: CardTable, rows: slice, selection: Selection) -> Flags:
    refused = np.array([not selection.accepts_kind(model, mode) for model, mode in table.kinds], bool)
    return refused[table.cards.kind[rows]]


def _refuse_uuids(table: CardTable, rows: slice, selection: Selection) -> Flags:
    uuids = table.uuids[rows]
    if not selection.names_uuids:
        return np.zeros(len(uuids), bool)
    return np.fromiter((not selection.accepts_uuid(uuid) for uuid in uuids), bool, len(uuids))
