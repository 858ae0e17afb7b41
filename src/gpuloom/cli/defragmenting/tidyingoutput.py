"""What ``gpuloom defrag`` tells without a pod: moves that strand less of what is free."""

from collections.abc import Iterator

import msgspec

from gpuloom.cli.defragmenting.planoutput import MoveOutput, tell_move
from gpuloom.engine.planning.defragmentation.empty_cards import count_after_moves, count_empty_cards
from gpuloom.engine.planning.defragmentation.plan import TidyingPlan
from gpuloom.scheduler.defragmentation.cluster import MovingCluster

_DIGITS = 6


class StepOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Pods that would move off a node together; ``freed_cards``: so much less is stranded then."""

    node: str
    freed_cards: float
    moves: tuple[MoveOutput, ...]


class TidyingOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Moves that strand less, those that do most per move first.

    free_cards_..., stranded_cards_...    of all cards, in cards, before and after the moves
    empty_cards_..., most_on_a_node_...   cards that nobody is on: in all, and of one vendor on one node at most
    """

    found: bool
    steps: tuple[StepOutput, ...]
    free_cards_before: float
    free_cards_after: float
    stranded_cards_before: float
    stranded_cards_after: float
    empty_cards_before: int
    empty_cards_after: int
    most_on_a_node_before: int
    most_on_a_node_after: int

    def lines(self, now: float) -> Iterator[str]:
        """Give what people read; ``now`` in Unix seconds."""
        stranded = f"stranded: {self.stranded_cards_before:.2f} of {self.free_cards_before:.2f} free cards now"
        if not self.found:
            yield f"no move strands less: {stranded.removeprefix('stranded: ')}"
            return
        count = sum(len(step.moves) for step in self.steps)
        yield f"{count} move{'s' if count > 1 else ''} would strand less"
        for step in self.steps:
            yield f"off node {step.node}, {step.freed_cards:.2f} cards less stranded:"
            yield from (move.line(now) for move in step.moves)
        yield f"{stranded}; then {self.stranded_cards_after:.2f} of {self.free_cards_after:.2f}"
        yield (
            f"empty cards: {self.empty_cards_before} now, at most {self.most_on_a_node_before} on one node; "
            f"then {self.empty_cards_after}, at most {self.most_on_a_node_after}"
        )


def tell_tidying(plan: TidyingPlan, cluster: MovingCluster) -> TidyingOutput:
    """Say what a plan means."""
    state, vendors = cluster.state.cluster, [profile.word for profile in cluster.state.cluster.catalog]
    before, after = count_empty_cards(state, vendors), count_after_moves(state, vendors, plan.moves)
    return TidyingOutput(
        found=bool(plan.steps),
        steps=tuple(
            StepOutput(
                node=step.node,
                freed_cards=round(step.freed, _DIGITS),
                moves=tuple(tell_move(move, cluster) for move in step.moves),
            )
            for step in plan.steps
        ),
        free_cards_before=round(plan.before.free, _DIGITS),
        free_cards_after=round(plan.after.free, _DIGITS),
        stranded_cards_before=round(plan.before.stranded, _DIGITS),
        stranded_cards_after=round(plan.after.stranded, _DIGITS),
        empty_cards_before=before.cards,
        empty_cards_after=after.cards,
        most_on_a_node_before=before.most_on_a_node,
        most_on_a_node_after=after.most_on_a_node,
    )
