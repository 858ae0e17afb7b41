"""What requests have in common for which every rule gives the same answer (kube-scheduler's equivalence classes)."""

import msgspec

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.request.demand import CardSelector, Demand, PlacementPreferences
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.model.request import Request
from gpuloom.model.request_columns import Headroom


class EquivalenceClass(msgspec.Struct, frozen=True, gc=False):
    """All that the rules' answer about a card depends on beside the card; never the pod itself.

    preferences  how cards are chosen, where that changes what a node is worth
    """

    request: Request
    selector: CardSelector
    mutex: bool
    headroom: Headroom
    node_policy: NodePolicy
    preferences: PlacementPreferences | None = None


def classify(compiled: CompiledProfile, demand: Demand, request: Request, headroom: Headroom) -> EquivalenceClass:
    """Return the class of one request of a pod, under what a quota leaves."""
    preferences = demand.preferences
    return EquivalenceClass(
        request,
        demand.selector,
        preferences.card_policy.mutex,
        headroom,
        preferences.node_policy,
        preferences if compiled.is_hooked else None,
    )
