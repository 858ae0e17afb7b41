"""Moves that lower what is stranded most per move, each pod to where it fits now.

Looked at are single pods, all sets of pods on a card and, of each node, all that may move. What their leaving changes
on their node is worked out for all of them at once; where they would go, and what that changes there, is tried for the
most promising ones. The best is made on the fork, and the search goes on from there.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import combinations
from typing import NamedTuple

from gpuloom.engine.decision.imagined import away
from gpuloom.engine.planning.defragmentation.arrivals import NOWHERE, Arrivals
from gpuloom.engine.planning.defragmentation.card_sets import MovableHolder
from gpuloom.engine.planning.defragmentation.gauge import StrandedGauge
from gpuloom.engine.planning.defragmentation.node_choice import hold_cards
from gpuloom.engine.planning.defragmentation.plan import PodMove, TidyingPlan, TidyingStep
from gpuloom.engine.planning.defragmentation.search import Progress, report
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.state.ledger import Reservation

LEAST_FREED = 0.005
"""Cards' worth a move: less is not worth restarting a pod."""
_MOST_HOLDERS = 4
"""Of a card with more pods, single ones and all of them are looked at."""
_AT_ONCE = 4096
_DIGITS = 9


class Candidate(NamedTuple):
    """Pods of a node that may leave it together, and how many cards' worth less it has stranded then."""

    pods: tuple[Reservation, ...]
    freed: float


@dataclass
class Tidying:
    """Looks for moves on a fork of the cluster.

    most_moves  of all steps together
    most_tried  so many candidates are tried in each step, the most promising first
    """

    trials: MoveTrials
    most_moves: int
    most_tried: int = 100
    _by_node: dict[str, list[Candidate]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._gauge = StrandedGauge(self.trials.state)

    def plan(self) -> Generator[Progress, None, TidyingPlan]:
        """Find the moves; steps tell how far it is."""
        yield 0, 1
        before = self._gauge.read()
        steps: list[TidyingStep] = []
        moves: list[PodMove] = []
        nodes: Iterable[str] = [node for node in self.trials.hosts.nodes if self.trials.state.has(node)]
        while len(moves) < self.most_moves:
            self.trials.forget_targets()
            yield from self._look_at(sorted(nodes), frozenset(move.pod.uid for move in moves))
            step = yield from report((len(moves), self.most_moves), self._choose(moves))
            if step is None:
                break
            self._make(step)
            steps.append(step)
            moves += step.moves
            nodes = {step.node, *(move.node for move in step.moves)}
        return TidyingPlan(tuple(steps), before, self._gauge.read())

    def _look_at(self, nodes: Sequence[str], moved: frozenset[str]) -> Generator[Progress, None, None]:
        """Find the candidates of nodes, and what their leaving changes there; nobody moves twice."""
        sets: list[tuple[Reservation, ...]] = []
        for number, node in enumerate(nodes):
            yield number, len(nodes)
            self._by_node[node] = []
            on_node = [held for held in self.trials.state.ledger.on_node(node) if held.uid not in moved]
            movable = [held for held in on_node if self.trials.class_of(held) is not None]
            sets += _sets_of(movable, self.most_moves)
        for start in range(0, len(sets), _AT_ONCE):
            yield len(nodes), len(nodes)
            part = sets[start : start + _AT_ONCE]
            for pods, freed in zip(part, self._measure(part), strict=True):
                self._by_node[pods[0].node].append(Candidate(pods, freed))

    def _measure(self, sets: Sequence[tuple[Reservation, ...]]) -> list[float]:
        freed = [0.0] * len(sets)
        for vendor in self._gauge.vendors:
            holders = [self._hold(vendor, pods) for pods in sets]
            lines = [line for line, some in enumerate(holders) if some]
            found = self._gauge.fewer_without(vendor, [(sets[line][0].node, holders[line]) for line in lines])
            for line, one in zip(lines, found.tolist(), strict=True):
                freed[line] += one
        return freed

    def _hold(self, vendor: str, pods: Iterable[Reservation]) -> list[MovableHolder]:
        table = self.trials.state[vendor].table
        held = (hold_cards(table, vendor, one) for one in pods if vendor in one.shares)
        return [one for one in held if one.usage]

    def _choose(self, before: Sequence[PodMove]) -> Generator[None, None, TidyingStep | None]:
        """Try the most promising candidates; return the one that does most per move, None if none does enough."""
        arrivals, left = Arrivals(self.trials, self._gauge), self.most_moves - len(before)
        promising: list[tuple[float, Candidate]] = []
        for candidates in self._by_node.values():
            for one in candidates:
                for held in one.pods:
                    yield from arrivals.prepare(held)
                freed = one.freed + sum(map(arrivals.look_up, one.pods))
                if len(one.pods) <= left and freed > NOWHERE:
                    promising.append((freed / len(one.pods), one))
        best: TidyingStep | None = None
        for _, candidate in nlargest(self.most_tried, promising, key=lambda one: (one[0], -len(one[1].pods))):
            offered = yield from self.trials.offer(candidate.pods)
            yield
            step = self._try_moving(candidate.pods, offered, before)
            if step is not None and (best is None or _value(step) > _value(best)):
                best = step
        return best

    def _try_moving(
        self, pods: Sequence[Reservation], offered: Mapping[str, Sequence[str]], before: Sequence[PodMove]
    ) -> TidyingStep | None:
        """Return the step that moves pods off their node, None where they find no room or too little is gained."""
        stranded, node = self._gauge.read().stranded, pods[0].node
        with away(self.trials.state, pods):
            moves = self.trials.move_off(node, pods, offered, before)
            if moves is None:
                return None
            freed = stranded - self._gauge.read().stranded
        return TidyingStep(node, tuple(moves), freed) if freed >= LEAST_FREED * len(moves) else None

    def _make(self, step: TidyingStep) -> None:
        for move in step.moves:
            self.trials.state.forget(move.pod.uid)
        for move in step.moves:
            self.trials.state.assume(move.target)


def _sets_of(movable: Sequence[Reservation], most: int) -> Iterator[tuple[Reservation, ...]]:
    """Give the sets that may leave a node: on each card all, or single ones and all, and all on the node."""
    by_card: dict[str, dict[str, Reservation]] = {}
    movable = sorted(movable, key=lambda held: held.uid)
    for held in movable:
        for share, is_held in held.each_share():
            if is_held:
                by_card.setdefault(share.uuid, {})[held.uid] = held
    found = {tuple(_uids(movable)): tuple(movable)} if movable else {}
    for on_card in by_card.values():
        holders = list(on_card.values())
        counts = range(1, len(holders) + 1) if len(holders) <= _MOST_HOLDERS else (1, len(holders))
        for count in counts:
            found |= {tuple(_uids(some)): some for some in combinations(holders, count)}
    return (some for some in found.values() if len(some) <= most)


def _uids(pods: Iterable[Reservation]) -> list[str]:
    return [held.uid for held in pods]


def _value(step: TidyingStep) -> tuple[float, int]:
    return round(step.freed / len(step.moves), _DIGITS), -len(step.moves)
