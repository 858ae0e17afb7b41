"""What ``gpuloom defrag`` tells: for people, and for programs."""

from collections.abc import Iterator

import msgspec

from gpuloom.engine.planning.defragmentation.empty_cards import count_after_moves, count_empty_cards
from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan, PodMove
from gpuloom.local.apiserver.ages import show_duration
from gpuloom.scheduler.defragmentation.cluster import MovingCluster
from gpuloom.scheduler.defragmentation.planning import list_cards


class MoveOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A pod that would have to move.

    cards       that it is on now; ``memory_mib`` what it holds of them together
    started_at  Unix seconds, 0 when nobody says
    owner       what makes it anew, empty where nothing does
    budgets     PodDisruptionBudgets that do not let it go now, namespace/name
    """

    namespace: str
    name: str
    node: str
    target: str
    cards: tuple[str, ...]
    memory_mib: int
    priority: int
    started_at: int
    owner: str
    budgets: tuple[str, ...] = ()

    def line(self, now: float) -> str:
        """Give what people read; ``now`` in Unix seconds."""
        on = f"{len(self.cards)} card{'s' if len(self.cards) > 1 else ''}"
        parts = [f"{self.memory_mib:,} MiB on {on}", f"priority {self.priority}"]
        if self.started_at:
            parts.append(f"runs for {show_duration(max(int(now) - self.started_at, 0))}")
        parts.append(f"{self.owner} makes it anew" if self.owner else "nothing makes it anew")
        parts += [f"budget {budget} lets none go now" for budget in self.budgets]
        return f"  {self.namespace}/{self.name}: to node {self.target} ({', '.join(parts)})"


class PlanOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Moves that make room for a pod on a node.

    cards      that the pod would get on the node; empty where it fits already
    found      False where no moves were found that help, as many as are allowed
    is_fewest  whether no plan has fewer moves
    empty_cards_...    of the vendor: in all, and on one node at most, before and after the moves
    """

    wanted: str
    found: bool
    node: str = ""
    cards: tuple[str, ...] = ()
    moves: tuple[MoveOutput, ...] = ()
    is_fewest: bool = True
    empty_cards_before: int = 0
    empty_cards_after: int = 0
    most_on_a_node_before: int = 0
    most_on_a_node_after: int = 0

    def lines(self, now: float) -> Iterator[str]:
        """Give what people read; ``now`` in Unix seconds."""
        if not self.found:
            yield f"{self.wanted}: found no moves that make room: see gpuloom fits and gpuloom explain"
        elif not self.moves:
            yield f"{self.wanted}: fits on node {self.node} without any move"
        else:
            count = f"{len(self.moves)} move{'s' if len(self.moves) > 1 else ''}"
            yield f"{self.wanted}: {count} would make room on node {self.node}"
            yield from (move.line(now) for move in self.moves)
            yield (
                f"empty cards: {self.empty_cards_before} now, at most {self.most_on_a_node_before} on one node; "
                f"then {self.empty_cards_after}, at most {self.most_on_a_node_after}"
            )
            if not self.is_fewest:
                yield "fewer moves may do: not all were tried"


def tell_plan(wanted: str, vendor: str, plan: DefragmentationPlan | None, cluster: MovingCluster) -> PlanOutput:
    """Say what a plan means."""
    if plan is None:
        return PlanOutput(wanted=wanted, found=False)
    state = cluster.state.cluster
    before, after = count_empty_cards(state, [vendor]), count_after_moves(state, [vendor], plan.moves)
    return PlanOutput(
        wanted=wanted,
        found=True,
        node=plan.node,
        cards=list_cards(plan.wanted) if plan.wanted else (),
        moves=tuple(tell_move(move, cluster) for move in plan.moves),
        is_fewest=plan.is_fewest,
        empty_cards_before=before.cards,
        empty_cards_after=after.cards,
        most_on_a_node_before=before.most_on_a_node,
        most_on_a_node_after=after.most_on_a_node,
    )


def tell_move(move: PodMove, cluster: MovingCluster) -> MoveOutput:
    """Say what a move is."""
    pod = move.pod
    known = cluster.pods.get(pod.uid)
    return MoveOutput(
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        target=move.node,
        cards=list_cards(pod),
        memory_mib=pod.memory_mib,
        priority=pod.priority,
        started_at=pod.started_at,
        owner=known.owner if known else "",
        budgets=cluster.find_forbidding(pod.uid),
    )
