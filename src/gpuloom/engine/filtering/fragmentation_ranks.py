"""The ranks of nodes by the policy ``fragmentation`` for one equivalence class of pods, and which cards they get.

What a pod costs on a node is remembered until the node changes. What follows from all nodes together, such as how
scarce a model is, is added for all of them in each decision.
"""

from typing import NamedTuple

import numpy as np

from gpuloom.engine.filtering.fragmentation_view import FragmentationView
from gpuloom.engine.scoring.fragmentation.chooser import STEP
from gpuloom.engine.scoring.fragmentation.measured_cost import NodesAndPod
from gpuloom.engine.scoring.fragmentation.node_cost import NOWHERE, WayCosts
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, shape_of
from gpuloom.engine.scoring.fragmentation.useless_share import Supply
from gpuloom.engine.scoring.ranking import UNFIT
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.lru_cache import LruCache
from gpuloom.model.cards import Flags, Ints, Points, RuleCodes, Scores
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import RequestColumns

_LEAST_RANK = -1e6
"""The rank of nodes that fit and of which nobody can tell what the pod costs there: they come last."""
_MOST_ANSWERS = 2048
_FEW = 4
"""Up to so many nodes that changed are looked for among remembered answers."""


class _Answer(NamedTuple):
    """What a pod costs on a node, by way; see :class:`WayCosts`."""

    cost: Points
    cards: Ints
    loses: Flags


class FragmentationRanks:
    """Ranks for one class of pods; the cards and the CPU of nodes come from a view that all classes share."""

    def __init__(self, view: FragmentationView, request: Request, cpu_milli: int) -> None:
        self._view = view
        self._request = request
        self._cpu_milli = cpu_milli
        self._generation = self._mark = self._market_changes = -1
        self._ranked: Scores = np.zeros(0, np.float32)
        self._steps: Points = np.zeros(0)
        self._answers: LruCache[tuple[bytes, bytes, int, int, int], _Answer] = LruCache(_MOST_ANSWERS)

    def rank(self, table: CardTable, required: RequestColumns, column: RuleCodes, ranks: Scores) -> Scores:
        """Return ranks by position in place of other ranks, UNFIT where those say that a node does not fit.

        ranks     those of the last time, with other ones for nodes that changed, or all anew
        required  what the pod needs of each card, ``column`` the rule that rejects it or 0, by row
        """
        changed = self._catch_up(table, required, column)
        if changed is None or ranks is not self._ranked or self._view.reserve.classes:
            everywhere = slice(None)
            self._steps = self._step(everywhere)
            self._ranked = np.where(ranks == UNFIT, UNFIT, self._steps).astype(np.float32)
        elif len(changed):
            self._steps[changed] = self._step(changed)
            ranks[changed] = np.where(ranks[changed] == UNFIT, UNFIT, self._steps[changed])
        return self._ranked

    def ranks_of(self, which: slice | Ints) -> Scores:
        """Return the ranks that nodes had when they were ranked last, whether they fit or not."""
        found: Scores = self._steps[which].astype(np.float32)
        return found

    def cards_of(self, position: int) -> list[int]:
        """Return which of a node's cards cost the pod least, none where that is not known."""
        prices = self._view.reserve_prices()[:, 0]
        cost = self._cost[:, position] + (self._loses[:, :, position] * prices).max(axis=1, initial=0.0)
        way = int(cost.argmin())
        return [] if cost[way] == NOWHERE else self._cards[way, position].tolist()

    def _catch_up(self, table: CardTable, required: RequestColumns, column: RuleCodes) -> Ints | None:
        """Work out what changed; return the nodes that did, None if what follows from all is other than before."""
        view = self._view
        view.refresh(table)
        changed = table.change_log.since(self._mark) if self._generation == view.generation else None
        if changed is None:
            self._begin(required)
            positions = np.arange(len(view.states))
        else:
            positions = np.array(sorted(set(changed)), np.int64)
        self._mark = table.change_log.mark
        if len(positions) > _FEW:
            self._renew(positions, column)
        else:
            for position in positions.tolist():
                self._recall(position, column)
        is_anew = changed is None or self._market_changes != view.market_changes
        if is_anew or len(positions):
            self._look_further(slice(None) if is_anew else positions)
        self._market_changes = view.market_changes
        return None if is_anew else positions

    def _begin(self, required: RequestColumns) -> None:
        view, request = self._view, self._request
        self._generation = view.generation
        percent = 0 if request.memory_percentage == PERCENTAGE_NOT_SET else request.memory_percentage
        asked = ExpectedShape("", self._cpu_milli, request.cards, request.memory_mib, percent, request.cores)
        self._demand = shape_of(asked, (), view.usual_mib).demand_milli
        first = view.first_of_size
        self._memory_mib = required.memory_mib[first] if len(required.memory_mib) else np.zeros(1, np.int64)
        self._cores = required.cores_at(first) if len(required.memory_mib) else np.zeros(1, np.int64)
        count, classes = len(view.states), view.reserve.classes
        self._taken = view.cards.take(np.zeros(0, np.int64), self._memory_mib, self._cores)
        self._cost: Points = np.full((2, count), NOWHERE)
        self._cards: Ints = np.zeros((2, count, min(request.cards, view.states.shape[1])), np.int64)
        self._loses: Flags = np.zeros((2, classes, count), np.bool_)
        self._later: Points = np.zeros(count)
        self._answers.clear()

    def _renew(self, positions: Ints, column: RuleCodes) -> None:
        """Work out costs on nodes together."""
        view, wanted = self._view, self._request.cards
        self._cost[:, positions] = NOWHERE
        fits = view.there[positions] & (column[view.rows[positions]] == 0)
        enough = fits.sum(axis=1) >= wanted
        positions, fits = positions[enough], fits[enough]
        if len(positions):
            self._note(positions, view.costs.ways(self._put_before(positions, fits)))

    def _put_before(self, positions: Ints, fits: Flags) -> NodesAndPod:
        view = self._view
        states, cpu = view.states[positions], view.cpu[positions]
        self._take()
        return NodesAndPod(
            states=states,
            fits=fits,
            taken=self._taken,
            supply=Supply(view.supply.cards[positions], view.supply.milli[positions]),
            used=view.used[positions],
            free=view.free[positions],
            cpu=cpu,
            left_cpu=np.maximum(cpu - self._cpu_milli, 0),
            model=view.model[positions],
            cards=self._request.cards,
        )

    def _note(self, positions: Ints, ways: tuple[WayCosts, WayCosts]) -> None:
        for at, way in enumerate(ways):
            self._cost[at, positions], self._cards[at, positions] = way.cost, way.cards
            self._loses[at][:, positions] = way.loses

    def _recall(self, position: int, column: RuleCodes) -> None:
        """Work out what a pod costs on one node, or remember it from a node that was the same."""
        view = self._view
        codes = column[view.rows[position]]
        alike = view.states[position].tobytes(), codes.tobytes()
        key = (*alike, view.cpu.item(position), view.model.item(position), int(view.there[position].sum()))
        answer = self._answers.recall(key, lambda: self._work_out(position, column))
        self._cost[:, position], self._cards[:, position], self._loses[:, :, position] = answer

    def _work_out(self, position: int, column: RuleCodes) -> _Answer:
        self._renew(np.array([position]), column)
        return _Answer(
            self._cost[:, position].copy(), self._cards[:, position].copy(), self._loses[:, :, position].copy()
        )

    def _take(self) -> None:
        """See that it is known what cards in all states would be worth once a share is taken of each."""
        cards = self._view.cards
        known = len(self._taken.free)
        if known < len(cards):
            more = cards.take(np.arange(known, len(cards)), self._memory_mib, self._cores)
            self._taken = self._taken.join(more)

    def _look_further(self, which: slice | Ints) -> None:
        """Work out what it costs that pods without cards will take CPU too."""
        view = self._view
        weight = view.weights.stranded_later
        if not weight:
            return
        free, cpu, later = view.free[which], view.cpu[which], view.cpu_later[which]
        then = view.costs.strand(free - self._demand, np.minimum(np.maximum(cpu - self._cpu_milli, 0), later))
        self._later[which] = weight * (then - view.costs.strand(free, np.minimum(cpu, later)))

    def _step(self, which: slice | Ints) -> Points:
        """Return ranks by position, of which nodes on which the pod has no place have the least."""
        view = self._view
        cost = self._cost[:, which]
        if view.reserve.classes:
            cost = cost + (self._loses[:, :, which] * view.reserve_prices()).max(axis=1)
        total = np.minimum(cost[0], cost[1])
        total += self._later[which]
        total += view.price[which] * self._demand
        total = np.floor(np.round(total, 6) / STEP + 0.5)
        return np.maximum(0.0 - total, _LEAST_RANK)
