"""A plan for a pod that waits, and the order to carry it out."""

from collections.abc import Generator

from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan, TidyingPlan
from gpuloom.engine.planning.defragmentation.search import Progress
from gpuloom.engine.planning.moving import MovingPod
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.uuids import card_id
from gpuloom.scheduler.defragmentation.cluster import MovingCluster
from gpuloom.scheduler.defragmentation.moving import Moving
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.keys import NODE_DEFRAG


def plan_for(
    cluster: MovingCluster, pod: HostPod, most_moves: int
) -> Generator[Progress, None, DefragmentationPlan | None]:
    """Look in steps for the fewest moves that make room for a pod; None when no moves help.

    Raises PolicyError for weights that cannot be read, ValueError for a pod that asks for no card.
    """
    demands = cluster.state.settings.read_demands(pod)
    if not demands:
        raise ValueError(f"pod {pod.full_name} asks for no card")
    cluster.wanted[pod.metadata.uid] = pod
    wanted = MovingPod(pod.metadata.uid, pod.namespace, pod.name, demands)
    return (yield from cluster.search(most_moves).plan(wanted))


def order_moves(cluster: MovingCluster, plan: DefragmentationPlan, timeout_s: float, note: str = NODE_DEFRAG) -> Moving:
    """Say what is to be done for a plan; ``note`` is the annotation that tells which cards are closed for it."""
    cards = list_cards(plan.wanted) if plan.wanted else ()
    known = frozenset(uid for uid, pod in cluster.pods.items() if pod.spec.node_name == plan.node)
    moving = [cluster.pods[move.pod.uid] for move in plan.moves]
    return Moving(moving, plan.node, cards, timeout_s, note, known=known)


def order_steps(cluster: MovingCluster, plan: TidyingPlan, timeout_s: float) -> list[Moving]:
    """Say what is to be done for a plan without a pod: the cards that are left are closed while others leave them."""
    return [
        Moving(
            [cluster.pods[move.pod.uid] for move in step.moves],
            step.node,
            tuple(sorted({card for move in step.moves for card in list_cards(move.pod)})),
            timeout_s,
        )
        for step in plan.steps
    ]


def list_cards(held: Reservation) -> tuple[str, ...]:
    """Return the cards that a pod holds shares of, in order."""
    return tuple(sorted({card_id(share.uuid) for share, is_held in held.each_share() if is_held}))
