"""Where pods would go if a card took no new ones and those on it were made anew.

They are placed one after another on a fork, in the order in which they are given: each sees what the ones before it
got. Only cards and quotas are looked at, as in a decision; what else a node must offer is kube-scheduler's to know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class MovingPod:
    """A pod that leaves, and what one like it asks for."""

    uid: str
    namespace: str
    name: str
    demands: Demands


def plan_moves(
    scheduler: PodScheduler, node: str, uuid: str, pods: Sequence[MovingPod], names: Sequence[str]
) -> Iterator[Decision]:
    """Decide for each pod as if all of them had left and the card was cordoned; nothing of the live state changes.

    names  of the nodes to choose from; the order breaks ties
    Raises ValueError for a pod that asks for no card.
    """
    trial = scheduler.fork()
    fork = trial.cluster_state
    for pod in pods:
        fork.forget(pod.uid)
    _cordon(fork, node, uuid)
    for pod in pods:
        decision = trial.decide(pod.demands, names)
        if decision.node is not None:
            fork.assume(imagine_placed(pod.demands, decision, uid=pod.uid))
        yield decision


def _cordon(fork: ClusterState, node: str, uuid: str) -> None:
    for word in list(fork.words_of(node)):
        registered = fork.registered(node, word)
        if registered is not None and any(card.id == uuid for card in registered.cards):
            fork.register(node, word, replace(registered, cordoned=registered.cordoned | {uuid}))
