"""Whether what a quota leaves can be too little for a request at all: if not, decisions need not look at it."""

from collections.abc import Iterable

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom


def may_exceed(
    headroom: Headroom,
    requests: Iterable[Request],
    table: CardTable,
    compiled: CompiledProfile,
    *,
    gives_more: bool = False,
) -> bool:
    """Tell whether requests together may be more than the headroom; whoever names no memory may get the largest card.

    gives_more  whether some cards give more than is asked for
    """
    if headroom == UNBOUNDED:
        return False
    if gives_more or compiled.adjusts_requests:
        return True
    largest_mib = int(table.cards.total_memory_mib.max(initial=0))
    asked = tuple(requests)
    return (
        sum(one.cards * (one.memory_mib or largest_mib) for one in asked) > headroom.memory_mib
        or sum(one.cards * one.cores for one in asked) > headroom.cores
    )
