"""What a pod would hold if a decision was carried out: for questions of the kind "what if"."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import NOBODY_ELSE, NOTHING_ELSE, Reservation, ReservationStatus
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import NO_TENANCY, PodShares


def imagine_placed(demands: Demands, decision: Decision, *, uid: str = "") -> Reservation:
    """Return what a pod would hold where it was decided; ``uid`` where it is not the one that was asked about."""
    first = next(iter(demands.values()))
    given = decision.shares, decision.instances, decision.extras
    return imagine_reservation(first, decision.node or "", *given, demands=demands, uid=uid)


@contextmanager
def away(state: ClusterState, pods: Sequence[Reservation]) -> Iterator[None]:
    """Let pods leave, and put them back wherever they went meanwhile."""
    for held in pods:
        state.forget(held.uid)
    try:
        yield
    finally:
        for held in pods:
            state.forget(held.uid)
            state.assume(held)


def imagine_reservation(
    demand: Demand,
    node: str,
    shares: PodShares,
    instances: tuple[MigAllocation, ...] = (),
    extras: Mapping[str, str] = NOTHING_ELSE,
    *,
    demands: Demands | None = None,
    uid: str = "",
) -> Reservation:
    """Return what a pod would hold on a node; ``uid`` where it is not the pod that the demand was read from.

    demands  by vendor, of a pod that may have cards of several
    """
    tenancies = {word: (demands or {}).get(word, demand).selector.tenancy for word in shares}
    return Reservation(
        uid=uid or demand.uid,
        namespace=demand.namespace,
        name=demand.name,
        node=node,
        shares=shares,
        instances=instances,
        container_types=demand.container_types,
        status=ReservationStatus.ASSUMED,
        since=0.0,
        tenancies={word: one for word, one in tenancies.items() if one != NO_TENANCY} or NOBODY_ELSE,
        extras=extras,
    )
