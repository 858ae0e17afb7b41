"""The fewest pods that would have to move, each to where it fits now, so that another pod fits."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from gpuloom.engine.decision.imagined import away, imagine_placed
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.planning.defragmentation.card_sets import MOST_TRIALS, Uids
from gpuloom.engine.planning.defragmentation.node_choice import NodeChoice, choose_by_cards, choose_by_trying
from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan
from gpuloom.engine.planning.defragmentation.trials import MoveTrials, Offered
from gpuloom.engine.planning.lone_request import find_lone_request
from gpuloom.engine.planning.moving import MovingPod
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.steps import Steps
from gpuloom.model.request_columns import UNBOUNDED

_R = TypeVar("_R")

Progress = tuple[int, int]
"""How much is done, and of how much."""


@dataclass
class Defragmentation:
    """Looks for moves on a fork of the cluster.

    most_moves  plans with more moves are none
    sets_left   so many sets of pods may still be tried
    """

    trials: MoveTrials
    most_moves: int
    sets_left: int = MOST_TRIALS

    def plan(self, wanted: MovingPod) -> Generator[Progress, None, DefragmentationPlan | None]:
        """Choose the node for a pod, and the pods that move; None when no moves help. Steps tell how far it is.

        Raises ValueError for a pod that asks for no card.
        """
        offered = yield from report((0, 1), self.trials.hosts.names_for(wanted.uid))
        if (node := self.trials.fork.decide(wanted.demands, offered).node) is not None:
            return DefragmentationPlan(node)
        yield 0, 1
        choices: list[NodeChoice] = []
        matrix = self._read_card_by_card(wanted.demands)
        names = self._nodes_with_enough_cards(wanted.demands)
        for number, name in enumerate(names):
            yield number, len(names)
            choice = yield from report((number, len(names)), self._look_at(wanted, name, matrix))
            if choice is not None and choice.least <= self.most_moves:
                choices.append(choice)
        best: DefragmentationPlan | None = None
        all_tried: float = self.most_moves
        for choice in sorted(choices, key=lambda one: one.least):
            most = self.most_moves if best is None else len(best.moves) - 1
            if choice.least > most or not self.sets_left:
                break
            done = len(names), len(names)
            yield done
            sets = choice.sets(most)
            all_tried = min(all_tried, max(sets.tried, choice.least - 1))
            best = (yield from report(done, self._choose(wanted, choice, sets.by_size))) or best
        return best and replace(best, is_fewest=self.sets_left > 0 and len(best.moves) - 1 <= all_tried)

    def _read_card_by_card(self, demands: Demands) -> RuleMatrix | None:
        """Return what the rules say of each card, None where that does not say whether the pod fits on a node."""
        if len(demands) > 1:
            return None
        ((word, demand),) = demands.items()
        if find_lone_request(self.trials.fork.by_vendor[word], demand) is None:
            return None
        return self._ask_rules(word, demand)

    def _ask_rules(self, word: str, demand: Demand) -> RuleMatrix:
        scheduler = self.trials.fork.by_vendor[word]
        return make_rule_matrix(scheduler, scheduler.state.table, demand, demand.placed_first, UNBOUNDED)

    def _nodes_with_enough_cards(self, demands: Demands) -> list[str]:
        """Return the nodes whose cards would do if nobody were on them, as far as single cards tell."""
        possible = set(self.trials.hosts.nodes)
        for word, demand in demands.items():
            matrix = self._ask_rules(word, demand)
            enough = np.flatnonzero(matrix.count(matrix.would_do_empty()) >= matrix.needs())
            possible.intersection_update(matrix.table.names[position] for position in enough.tolist())
        return [name for name in self.trials.hosts.nodes if name in possible]

    def _look_at(
        self, wanted: MovingPod, node: str, matrix: RuleMatrix | None
    ) -> Generator[None, None, NodeChoice | None]:
        movable: list[Reservation] = []
        for held in list(self.trials.state.ledger.on_node(node)):
            if (yield from self.trials.finds_room(held)):
                movable.append(held)  # noqa: PERF401 - a comprehension cannot take steps
        if not movable:
            return None
        if matrix is not None:
            return choose_by_cards(node, movable, matrix, next(iter(wanted.demands)))
        return choose_by_trying(node, movable, lambda stay: self._fits_beside(wanted, node, movable, stay))

    def _fits_beside(self, wanted: MovingPod, node: str, movable: Sequence[Reservation], stay: frozenset[str]) -> bool:
        """Tell whether a pod fits on a node beside those that stay of the ones that may move."""
        with away(self.trials.state, [held for held in movable if held.uid not in stay]):
            return self.trials.fork.decide(wanted.demands, (node,)).node is not None

    def _choose(
        self, wanted: MovingPod, choice: NodeChoice, sets: Sequence[Uids]
    ) -> Generator[None, None, DefragmentationPlan | None]:
        """Return the first set of pods that makes room, and finds some: small ones are asked first."""
        for uids in sets:
            if not self.sets_left:
                return None
            self.sets_left -= 1
            moved = [held for held in choice.movable if held.uid in uids]
            offered = yield from self.trials.offer(moved)
            yield
            plan = self._move(wanted, choice.node, moved, offered)
            if plan is not None:
                return plan
        return None

    def _move(
        self, wanted: MovingPod, node: str, moved: Sequence[Reservation], offered: Offered
    ) -> DefragmentationPlan | None:
        """Let pods leave, the wanted one come, then place those that left elsewhere; nothing of it stays."""
        trials = self.trials
        with away(trials.state, moved):
            decision = trials.fork.decide(wanted.demands, (node,))
            gone = [held.uid for held in moved]
            if decision.node is None or not trials.hosts.takes(node, wanted.uid, without=gone):
                return None
            room = trials.state.assume(imagine_placed(wanted.demands, decision, uid=wanted.uid))
            try:
                moves = trials.move_off(node, moved, offered)
            finally:
                trials.state.forget(wanted.uid)
            return None if moves is None else DefragmentationPlan(node, tuple(moves), room)


def report(done: Progress, steps: Generator[None, None, _R]) -> Generator[Progress, None, _R]:
    """Take steps, and tell after each how far it is; return their result."""
    taken = Steps(steps)
    for _ in taken:
        yield done
    return taken.result
