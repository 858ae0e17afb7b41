"""Where pods would go if a card took no new ones and those on it were made anew.

They are placed one after another on a fork, in the order in which they are given: each sees what the ones before it
got. Only cards and quotas are looked at, as in a decision; what else a node must offer is kube-scheduler's to know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuloom.engine.decision.pod_scheduler import PodDecision, PodScheduler
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus


@dataclass(frozen=True, slots=True)
class MovingPod:
    """A pod that leaves, and what one like it asks for."""

    uid: str
    namespace: str
    name: str
    demands: Demands


def plan_moves(
    scheduler: PodScheduler, node: str, uuid: str, pods: Sequence[MovingPod], names: Sequence[str]
) -> Iterator[PodDecision]:
    """Decide for each pod as if all of them had left and the card was closed; nothing of the live state changes.

    names  of the nodes to choose from; the order breaks ties
    Raises ValueError for a pod that asks for no card.
    """
    fork = scheduler.cluster_state.fork()
    for pod in pods:
        fork.forget(pod.uid)
    _close(fork, node, uuid)
    trial = PodScheduler(fork, scheduler.options)
    for pod in pods:
        decision = trial.decide(pod.demands, names)
        if decision.node is not None:
            fork.assume(_reserve(pod, decision, decision.node))
        yield decision


def _close(fork: ClusterState, node: str, uuid: str) -> None:
    words = [word for word in fork.words_of(node) if fork[word].table.row(node, uuid) is not None]
    if words:
        cards = {word: frozenset({uuid}) for word in words}
        fork.close(Closing(f"imagined-{uuid}", "", "", node, "it is to take no new pods", cards))


def _reserve(pod: MovingPod, decision: PodDecision, node: str) -> Reservation:
    return Reservation(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        shares=decision.shares,
        instances=decision.instances,
        phases=next(iter(pod.demands.values())).phases,
        status=ReservationStatus.ASSUMED,
        since=0.0,
        extras=decision.extras,
    )
