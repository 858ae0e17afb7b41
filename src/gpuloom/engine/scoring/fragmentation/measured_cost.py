"""What placing a pod on a node costs where cards have memory and cores, as far as it follows from that node alone.

The numbers are those of ``node_cost`` where both are used alike. Arrays have a row a node and a column a card; what
follows from the state of a card is looked up, so that thousands of nodes take few steps.
"""

from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.fragmentation.measured_cards import MeasuredCards
from gpuloom.engine.scoring.fragmentation.node_cost import NOWHERE, WayCosts
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.model.cards import Flags, Ints, Points

_MOST_PAIRS = 1_000_000
"""So many pairs of a state of cards and of chances are worked out at once, 8 MB; beyond them nodes come in parts."""


@dataclass(frozen=True, slots=True)
class NodesAndPod:
    """Nodes before a pod.

    states  of each card, ``left`` the same once a share is taken from it; ``fits`` whether it may be taken
    cpu     free milli-cores by node, ``left_cpu`` once the pod has its part
    model   of the node's cards
    cards   how many cards the pod gets
    """

    states: Ints
    left: Ints
    fits: Flags
    cpu: Ints
    left_cpu: Ints
    model: Ints
    cards: int


class MeasuredCosts:
    """Works out costs for some nodes at a time; remembers nothing of nodes."""

    def __init__(
        self, cards: MeasuredCards, useless: UselessShare, workload: Workload, reserve: Reserve, weights: Parameters
    ) -> None:
        self._cards = cards
        self._useless = useless
        self._reserve = reserve
        self._weights = weights
        self._cpu_per_milli = workload.cpu_per_milli
        self._of_one = np.array([one.cards == 1 for one in useless.asked], np.bool_)
        self._together = np.flatnonzero(~self._of_one)

    def ways(self, on: NodesAndPod) -> tuple[WayCosts, WayCosts]:
        """Return the cheapest cards, and the cheapest that are in use already: the reserve may make them cheaper.

        NOWHERE on nodes without so many cards that may be taken.
        """
        whole = self._cards.whole[on.states]
        able = self._reserve.able(whole.sum(axis=1), on.cpu)
        each = self._cost_each(on)
        first = self._way(on, each, able, whole)
        if not able.any() or (on.cards > 1 and not (~whole & on.fits).any()):
            return first, first
        return first, self._way(on, np.where(whole, NOWHERE, each), able, whole)

    def _way(self, on: NodesAndPod, each: Points, able: Flags, whole: Flags) -> WayCosts:
        node = np.arange(len(each))[:, None]
        if on.cards == 1:
            cards = each.argmin(axis=1)[:, None]
            cost = each[node, cards][:, 0]
        else:
            cards = np.argsort(each, axis=1, kind="stable")[:, : on.cards]
            cost = self._cost_together(on, each, cards)
        broken = whole[node, cards].sum(axis=1)
        return WayCosts(cost, cards, able & ~self._reserve.able(whole.sum(axis=1) - broken, on.left_cpu))

    def _cost_each(self, on: NodesAndPod) -> Points:
        """Return what each card costs if only that one is taken, NOWHERE where it may not be."""
        cards = self._cards
        free, waste = cards.free[on.states], cards.waste
        lost, total = free - cards.free[on.left], free.sum(axis=1)
        before = self._used_before(on)
        cost = self._weights.useless * (before[:, None] - lost - self._used_after_each(on))
        cost += waste[on.left] - waste[on.states]
        stranded = self.strand(total[:, None] - lost, on.left_cpu[:, None]) - self.strand(total, on.cpu)[:, None]
        cost += self._weights.stranded * stranded
        cost[~on.fits] = NOWHERE
        return cost

    def _cost_together(self, on: NodesAndPod, each: Points, chosen: Ints) -> Points:
        """Return what several cards cost together, NOWHERE where one of them may not be taken."""
        if chosen.shape[1] < on.cards:
            return np.full(len(each), NOWHERE)
        cards, node = self._cards, np.arange(len(each))[:, None]
        then = on.states.copy()
        then[node, chosen] = on.left[node, chosen]
        total, left = cards.free[on.states].sum(axis=1), cards.free[then].sum(axis=1)
        used = self._useless.used(self._supply(then), self._useless.chances(on.model, on.left_cpu))
        cost = self._weights.useless * (self._used_before(on) - (total - left) - used)
        cost += (cards.waste[then] - cards.waste[on.states]).sum(axis=1)
        cost += self._weights.stranded * (self.strand(left, on.left_cpu) - self.strand(total, on.cpu))
        return np.where(np.isinf(each[node, chosen]).any(axis=1), NOWHERE, cost)

    def _supply(self, states: Ints) -> Supply:
        return Supply(self._cards.serves[states].sum(axis=1), self._cards.usable[states].sum(axis=1))

    def _used_before(self, on: NodesAndPod) -> Points:
        return self._useless.used(self._supply(on.states), self._useless.chances(on.model, on.cpu))

    def _used_after_each(self, on: NodesAndPod) -> Points:
        """Return what typical pods can use once a share is taken from each card alone.

        For typical pods of one card that is a sum over cards, so only the card that is taken makes a difference.
        """
        chances = self._useless.chances(on.model, on.left_cpu)
        supply = self._supply(on.states)
        used = (supply.milli * chances)[:, self._of_one].sum(axis=1)[:, None] + self._change_each(on)
        cards = self._cards
        for at in self._together.tolist():
            column, usable = cards.serves[:, at], cards.usable[:, at]
            count = supply.cards[:, at, None] + column[on.left] - column[on.states]
            milli = supply.milli[:, at, None] + usable[on.left] - usable[on.states]
            used += (count >= self._useless.asked[at].cards) * milli * chances[:, at, None]
        return used

    def _change_each(self, on: NodesAndPod) -> Points:
        """Return by how much what typical pods of one card can use changes with each card."""
        usable = self._cards.usable[:, self._of_one]
        table, line = self._useless.lines(on.model, on.left_cpu)
        lines, line = np.unique(line, return_inverse=True)
        pairs, place = np.unique(on.states * len(self._cards) + on.left, return_inverse=True)
        before, after = np.divmod(pairs, len(self._cards))
        change = usable[after] - usable[before]
        place = place.reshape(on.states.shape)
        chances = table[lines][:, self._of_one].T
        if len(pairs) * len(lines) <= _MOST_PAIRS:
            found: Points = (change @ chances)[place, line[:, None]]
            return found
        parts = [change[some] * chances.T[one][:, None] for some, one in zip(place, line, strict=True)]
        return np.array([part.sum(axis=-1) for part in parts])

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(np.broadcast_shapes(np.shape(free_milli), np.shape(cpu)))
        return np.maximum(0.0, free_milli - cpu / self._cpu_per_milli)
