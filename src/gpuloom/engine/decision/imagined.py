"""What a pod would hold if a decision was carried out: for questions of the kind "what if"."""

from collections.abc import Mapping

from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.ledger import NOTHING_ELSE, Reservation, ReservationStatus
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import PodShares


def imagine_reservation(
    demand: Demand,
    node: str,
    shares: PodShares,
    instances: tuple[MigAllocation, ...] = (),
    extras: Mapping[str, str] = NOTHING_ELSE,
    *,
    uid: str = "",
) -> Reservation:
    """Return what a pod would hold on a node; ``uid`` where it is not the pod that the demand was read from."""
    return Reservation(
        uid=uid or demand.uid,
        namespace=demand.namespace,
        name=demand.name,
        node=node,
        shares=shares,
        instances=instances,
        phases=demand.phases,
        status=ReservationStatus.ASSUMED,
        since=0.0,
        extras=extras,
    )
