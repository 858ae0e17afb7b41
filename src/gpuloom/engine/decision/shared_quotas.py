"""What quotas leave of each vendor's cards where a pod asks several that count under one name (scheduler 6.10).

Cards of different vendors do not know each other, so each vendor is left what the others need not have.
"""

from collections.abc import Mapping

import numpy as np

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.quotas import Counted, QuotaBook
from gpuloom.engine.state.usage import NOTHING, Usage, collapse
from gpuloom.model.cards import Ints
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, UNLIMITED, Headroom
from gpuloom.model.share import Share

_ALL_CARDS = ""


def share_headrooms(
    demands: Demands, headrooms: Mapping[str, Headroom], by_vendor: Mapping[str, VendorScheduler], quotas: QuotaBook
) -> Mapping[str, Headroom]:
    """Return what is left of each vendor's cards when the others have theirs; ``headrooms`` where they share nothing.

    headrooms  what quotas leave of each vendor's cards, where that is not what is known here
    """
    limits = quotas.limits(next(iter(demands.values())).namespace)
    counted = {name: quotas.resources[name] for name in limits}
    shared = {name: one for name, one in counted.items() if _counts_several(one, demands)}
    if not shared:
        return headrooms
    held = {word: _hold_at_least(by_vendor[word], demand) for word, demand in demands.items()}
    left: dict[str, Headroom] = {}
    for word, demand in demands.items():
        names = by_vendor[word].profile.resources
        whole = headrooms[word] if word in headrooms else by_vendor[word].headroom(demand)
        others = {other: usage for other, usage in held.items() if other != word}
        left[word] = Headroom(
            _take_away(whole.memory_mib, shared.get(names.memory), others),
            _take_away(whole.cores, shared.get(names.cores), others),
        )
    return left


def _counts_several(counted: Counted, demands: Demands) -> bool:
    return len(demands.keys() & {*counted.memory_of, *counted.cores_of}) > 1


def _take_away(amount: int, counted: Counted | None, others: Mapping[str, Usage]) -> int:
    """Return what vendors leave of an amount, as far as it counts their cards."""
    if counted is None or amount == UNLIMITED:
        return amount
    memory_mib = sum(others[word].memory_mib for word in counted.memory_of if word in others)
    return amount - memory_mib - sum(others[word].cores for word in counted.cores_of if word in others)


def _hold_at_least(scheduler: VendorScheduler, demand: Demand) -> Usage:
    """Return what a pod holds of a vendor's cards at least, whichever it gets, as quotas count it."""
    requests = [container.request for container in demand.containers]
    asked = [() if one is None else (_ask_at_least(scheduler, demand, one),) for one in requests]
    return collapse(asked, demand.container_types).get(_ALL_CARDS, NOTHING)


def _ask_at_least(scheduler: VendorScheduler, demand: Demand, request: Request) -> Share:
    """Return what a container gets at least of all its cards together; cores are a number, never a mask."""
    compiled, table = scheduler.compiled, scheduler.state.table
    required = make_request_columns(compiled, table, classify(compiled, demand, request, UNBOUNDED))
    rows = np.flatnonzero(table.cards.node != NO_NODE)
    if not len(rows):
        return Share(_ALL_CARDS, compiled.profile.word, 0, 0)
    cards: Ints | int = required.cards if required.vendor_columns is None else required.vendor_columns.cards[rows]
    memory_mib, cores = cards * required.memory_mib[rows], cards * required.cores_at(rows)
    return Share(_ALL_CARDS, compiled.profile.word, int(memory_mib.min()), int(cores.min()))
