"""What ``gpuloom drain-card`` tells before it does anything: who is on the card, and who finds room elsewhere."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from gpuloom.cli.asking.finding import read_objects
from gpuloom.engine.decision.event_messages import describe_failure
from gpuloom.engine.planning.moving import MovingPod, plan_moves
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.kube import KubeClient
from gpuloom.scheduler.preemption.nominating import take_written
from gpuloom.wire.fullpods import FullPod

if TYPE_CHECKING:
    from gpuloom.web.views.source import Source

_MOST_REASONS = 3


class Move(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Whether a pod would fit elsewhere, on which node, and why not."""

    namespace: str
    name: str
    fits: bool
    node: str = ""
    why: str = ""


class DrainPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A card that is to be drained, and what would become of the pods on it, in the order in which they are placed."""

    card: str
    node: str
    pods: tuple[Move, ...]

    @property
    def fits(self) -> bool:
        """Whether all pods find room."""
        return all(pod.fits for pod in self.pods)

    def lines(self) -> Iterator[str]:
        """Give what people read."""
        if not self.pods:
            yield f"no pod is on card {self.card} of node {self.node}"
        for pod in self.pods:
            found = f"room on node {pod.node}" if pod.fits else f"no room: {pod.why}"
            yield f"{pod.namespace}/{pod.name}: {found}"


async def plan_drain(client: KubeClient, node: str, card: str, pods: Sequence[FullPod]) -> DrainPlan:
    """Read the cluster and try where the pods of a card would go, oldest first: not where others wait for room.

    Raises ApiError when the cluster may not be read.
    """
    if not pods:
        return DrainPlan(card=card, node=node, pods=())
    source = await (await read_objects(client, "")).source()
    take_written(source.state, source.state.shown.pods.values(), int(time.time()))
    ordered = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.full_name))
    moving, said = [], dict[str, Move]()
    for pod in ordered:
        try:
            demands = source.state.settings.read_demands(pod)
        except PolicyError as error:
            said[pod.metadata.uid] = _stay(pod, f"cannot be placed: {error}")
            continue
        if demands:
            moving.append(MovingPod(pod.metadata.uid, pod.namespace, pod.name, demands))
        else:
            said[pod.metadata.uid] = _stay(pod, "it asks for no card, so nobody would give it one")
    kept = source.state.nominations.nodes_kept_from("", min(pod.priority for pod in ordered))
    names = [name for name in source.open_node_names() if name not in kept]
    said |= _place(source, node, card, moving, names)
    return DrainPlan(card=card, node=node, pods=tuple(said[pod.metadata.uid] for pod in ordered))


def _place(
    source: "Source", node: str, card: str, moving: Sequence[MovingPod], names: Sequence[str]
) -> dict[str, Move]:
    decisions = plan_moves(source.pod_scheduler, node, card, moving, names)
    moves = {}
    for pod, decision in zip(moving, decisions, strict=True):
        why = ""
        if decision.node is None:
            *reasons, total = describe_failure(decision.refusals, decision.candidates)
            why = "; ".join(reasons[:_MOST_REASONS]) or total
        moves[pod.uid] = Move(
            namespace=pod.namespace, name=pod.name, fits=decision.node is not None, node=decision.node or "", why=why
        )
    return moves


def _stay(pod: FullPod, why: str) -> Move:
    return Move(namespace=pod.namespace, name=pod.name, fits=False, why=why)
