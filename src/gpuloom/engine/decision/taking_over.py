"""Whether a pod gets the very cards that another scheduler chose for it (binding 2 step 1)."""

from collections.abc import Mapping

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering.exact_fit import fits_exactly
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.quotas import find_exceeded
from gpuloom.engine.state.usage import Usage, sum_for_quota


def takes_over(scheduler: PodScheduler, demands: Demands, chosen: Reservation) -> bool:
    """Tell whether what was chosen is of the vendors that the pod asks, fits, and is within its namespace's quotas."""
    given = {word for word, usages in chosen.usage_by_vendor().items() if usages}
    if given != demands.keys() or not fits_exactly(scheduler.cluster_state, chosen):
        return False
    return not _exceeds_quota(scheduler, demands, chosen)


def _exceeds_quota(scheduler: PodScheduler, demands: Demands, chosen: Reservation) -> bool:
    """Tell whether a namespace would hold too much; what the pod holds already it would give back."""
    ledger, by_vendor = scheduler.cluster_state.ledger, scheduler.by_vendor
    held = ledger.find(chosen.uid)
    after, before = chosen.usage_by_vendor(), held.usage_by_vendor() if held is not None else {}

    def sum_up(by_word: Mapping[str, Mapping[str, Usage]], word: str) -> Usage:
        return sum_for_quota(by_word.get(word, {}).values(), bits=word in ledger.bits)

    asked = [(by_vendor[word].profile, sum_up(after, word) - sum_up(before, word)) for word in demands]
    return find_exceeded(asked, lambda one: by_vendor[one.word].headroom(demands[one.word])) is not None
