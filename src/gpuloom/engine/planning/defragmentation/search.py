"""The fewest pods that would have to move, each to where it fits now, so that another pod fits."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import msgspec
import numpy as np

from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodDecision, PodScheduler
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.planning.defragmentation.hosts import HostRoom
from gpuloom.engine.planning.defragmentation.node_choice import NodeChoice, choose_by_cards, choose_by_trying
from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan, PodMove
from gpuloom.engine.planning.lone_request import find_lone_request
from gpuloom.engine.planning.moving import MovingPod
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import UNBOUNDED

MOST_TRIALS = 2_000
"""So many sets of pods are tried at most; a plan found after them may not be the one with the fewest moves."""

DemandsOf = Callable[[Reservation], Demands | None]
"""Looks up what a pod that may move asks for; None for one that may not."""

_R = TypeVar("_R")

Progress = tuple[int, int]
"""How much is done, and of how much."""


@dataclass(slots=True)
class _Limit:
    """How many sets of pods may still be tried."""

    trials: int = MOST_TRIALS


@dataclass
class Defragmentation:
    """Looks for moves on a fork of the cluster.

    most_moves  plans with more moves are none
    """

    scheduler: PodScheduler
    demands_of: DemandsOf
    hosts: HostRoom
    most_moves: int
    _limit: _Limit = field(default_factory=_Limit)
    _targets: dict[object, tuple[str, ...]] = field(default_factory=dict)

    def plan(self, wanted: MovingPod) -> Generator[Progress, None, DefragmentationPlan | None]:
        """Choose the node for a pod, and the pods that move; None when no moves help. Steps tell how far it is.

        Raises ValueError for a pod that asks for no card.
        """
        offered = yield from _report((0, 1), self.hosts.names_for(wanted.uid))
        if (node := self._fork.decide(wanted.demands, offered).node) is not None:
            return DefragmentationPlan(node)
        yield 0, 1
        choices: list[NodeChoice] = []
        matrix = self._read_card_by_card(wanted.demands)
        names = self._nodes_with_enough_cards(wanted.demands)
        for number, name in enumerate(names):
            yield number, len(names)
            choice = yield from _report((number, len(names)), self._look_at(wanted, name, matrix))
            if choice is not None and choice.least <= self.most_moves:
                choices.append(choice)
        best: DefragmentationPlan | None = None
        for choice in sorted(choices, key=lambda one: one.least):
            most = self.most_moves if best is None else len(best.moves) - 1
            if choice.least > most or not self._limit.trials:
                break
            done = len(names), len(names)
            yield done
            best = (yield from _report(done, self._choose(wanted, choice, most))) or best
        return best and replace(best, is_fewest=self._limit.trials > 0)

    @cached_property
    def _fork(self) -> PodScheduler:
        return PodScheduler(self.scheduler.cluster_state.fork(), self.scheduler.options)

    @property
    def _state(self) -> ClusterState:
        return self._fork.cluster_state

    def _read_card_by_card(self, demands: Demands) -> RuleMatrix | None:
        """Return what the rules say of each card, None where that does not say whether the pod fits on a node."""
        if len(demands) > 1:
            return None
        ((word, demand),) = demands.items()
        if find_lone_request(self._fork.by_vendor[word], demand) is None:
            return None
        return self._ask_rules(word, demand)

    def _ask_rules(self, word: str, demand: Demand) -> RuleMatrix:
        scheduler = self._fork.by_vendor[word]
        return make_rule_matrix(scheduler, scheduler.state.table, demand, demand.placed_first, UNBOUNDED)

    def _nodes_with_enough_cards(self, demands: Demands) -> list[str]:
        """Return the nodes whose cards would do if nobody were on them, as far as single cards tell."""
        possible = set(self.hosts.nodes)
        for word, demand in demands.items():
            matrix = self._ask_rules(word, demand)
            enough = np.flatnonzero(matrix.count(matrix.would_do_empty()) >= matrix.needs())
            possible.intersection_update(matrix.table.names[position] for position in enough.tolist())
        return [name for name in self.hosts.nodes if name in possible]

    def _look_at(
        self, wanted: MovingPod, node: str, matrix: RuleMatrix | None
    ) -> Generator[None, None, NodeChoice | None]:
        movable: list[Reservation] = []
        for held in list(self._state.ledger.on_node(node)):
            if (yield from self._finds_room(held)):
                movable.append(held)  # noqa: PERF401 - a comprehension cannot take steps
        if not movable:
            return None
        if matrix is not None:
            return choose_by_cards(node, movable, matrix, next(iter(wanted.demands)))
        return choose_by_trying(node, movable, lambda stay: self._fits_beside(wanted, node, movable, stay))

    def _finds_room(self, held: Reservation) -> Generator[None, None, bool]:
        """Tell whether another node would take a pod now; what all alike pods are told is remembered."""
        demands = self.demands_of(held)
        if demands is None:
            return False
        shape = [(word, msgspec.structs.replace(demand, uid="", name="")) for word, demand in demands.items()]
        key = (*shape, self.hosts.demand_of(held.uid))
        if key not in self._targets:
            self._targets[key] = yield from self._first_targets(held.uid, demands)
        return any(target != held.node for target in self._targets[key])

    def _first_targets(self, uid: str, demands: Demands) -> Generator[None, None, tuple[str, ...]]:
        """Return the first two nodes for a pod: one of them may be its own. It gives back the quota that it takes."""
        names = yield from self.hosts.names_for(uid)
        headrooms = dict.fromkeys(demands, UNBOUNDED)
        targets: list[str] = []
        for _ in range(2):
            yield
            node = self._fork.decide(demands, names, headrooms=headrooms).node
            if node is None:
                break
            targets.append(node)
            names = [name for name in names if name != node]
        return tuple(targets)

    def _fits_beside(self, wanted: MovingPod, node: str, movable: Sequence[Reservation], stay: frozenset[str]) -> bool:
        """Tell whether a pod fits on a node beside those that stay of the ones that may move."""
        leaving = [held for held in movable if held.uid not in stay]
        for held in leaving:
            self._state.forget(held.uid)
        try:
            return self._fork.decide(wanted.demands, (node,)).node is not None
        finally:
            for held in leaving:
                self._state.assume(held)

    def _choose(
        self, wanted: MovingPod, choice: NodeChoice, most: int
    ) -> Generator[None, None, DefragmentationPlan | None]:
        """Return the first set of pods that makes room, and finds some: small ones are asked first."""
        for uids in choice.sets(most):
            if not self._limit.trials:
                return None
            self._limit.trials -= 1
            leaving = [held for held in choice.movable if held.uid in uids]
            offered: dict[str, Sequence[str]] = {}
            for held in leaving:
                offered[held.uid] = yield from self.hosts.names_for(held.uid)
            yield
            plan = self._move(wanted, choice.node, leaving, offered)
            if plan is not None:
                return plan
        return None

    def _move(
        self, wanted: MovingPod, node: str, leaving: Sequence[Reservation], offered: Mapping[str, Sequence[str]]
    ) -> DefragmentationPlan | None:
        """Let pods leave, the wanted one come, then place those that left elsewhere; nothing of it stays."""
        for held in leaving:
            self._state.forget(held.uid)
        try:
            decision = self._fork.decide(wanted.demands, (node,))
            gone = [held.uid for held in leaving]
            if decision.node is None or not self.hosts.takes(node, wanted.uid, leaving=gone):
                return None
            room = self._assume(wanted.uid, wanted.demands, decision, decision.node)
            moves: list[PodMove] = []
            for held in sorted(leaving, key=_largest_first):
                names = [name for name in offered[held.uid] if name != node]
                move = self._place(held, names, moves)
                if move is None:
                    return None
                moves.append(move)
            return DefragmentationPlan(node, tuple(moves), room)
        finally:
            self._state.forget(wanted.uid)
            for held in leaving:
                self._state.forget(held.uid)
                self._state.assume(held)

    def _place(self, held: Reservation, names: list[str], moves: Sequence[PodMove]) -> PodMove | None:
        """Place a pod that left on one of these nodes, as it would be placed now."""
        demands = self.demands_of(held)
        if demands is None:
            return None
        while (decision := self._fork.decide(demands, names)).node is not None:
            coming = [move.pod.uid for move in moves if move.node == decision.node]
            if not coming or self.hosts.takes(decision.node, held.uid, coming=coming):
                return PodMove(held, self._assume(held.uid, demands, decision, decision.node))
            names.remove(decision.node)
        return None

    def _assume(self, uid: str, demands: Demands, decision: PodDecision, node: str) -> Reservation:
        demand = next(iter(demands.values()))
        return self._state.assume(
            imagine_reservation(demand, node, decision.shares, decision.instances, decision.extras, uid=uid)
        )


def _report(done: Progress, steps: Generator[None, None, _R]) -> Generator[Progress, None, _R]:
    """Take steps, and tell after each how far it is; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _R = end.value
            return result
        yield done


def _largest_first(held: Reservation) -> tuple[int, str, str]:
    return -held.memory_mib, held.full_name, held.uid
