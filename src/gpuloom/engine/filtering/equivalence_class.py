"""What requests have in common for which every rule gives the same answer (kube-scheduler's equivalence classes)."""

import msgspec

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.request.demand import CardSelector, Demand, PlacementPolicy
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.model.request import Request
from gpuloom.model.request_columns import Headroom


class EquivalenceClass(msgspec.Struct, frozen=True, gc=False):
    """All that the rules' answer about a card depends on beside the card; never the pod itself.

    policy  how cards are chosen, where that changes what a node is worth
    """

    request: Request
    selector: CardSelector
    mutex: bool
    headroom: Headroom
    node_policy: NodePolicy
    policy: PlacementPolicy | None = None


def classify(compiled: CompiledProfile, demand: Demand, request: Request, headroom: Headroom) -> EquivalenceClass:
    """Return the class of one request of a pod, under what a quota leaves."""
    policy = demand.policy
    return EquivalenceClass(
        request,
        demand.selector,
        policy.card_policy.mutex,
        headroom,
        policy.node_policy,
        policy if compiled.is_hooked else None,
    )
