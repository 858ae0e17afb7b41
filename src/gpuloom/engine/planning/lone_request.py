"""Pods of which single cards tell all: those fit on a node where enough cards serve them, one by one."""

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.request.demand import Demand
from gpuloom.model.cards import UNDIVIDED
from gpuloom.model.request import Request


def find_lone_request(scheduler: VendorScheduler, demand: Demand) -> Request | None:
    """Return the only request of such a pod.

    None for others: of several containers, bound to a NUMA node, of a vendor that decides about cards together, or in
    a cluster with divided cards.
    """
    divided = bool((scheduler.state.table.cards.division != UNDIVIDED).any())
    if len(demand.requests) > 1 or divided or demand.preferences.numa_bind or scheduler.compiled.is_hooked:
        return None
    return demand.placed_first
