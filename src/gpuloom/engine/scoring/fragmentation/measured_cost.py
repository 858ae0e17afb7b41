"""What placing a pod on a node costs, as far as it follows from that node alone.

Arrays have a row a node and a column a card; what follows from the state of a card is looked up, so that thousands of
nodes take few steps.
"""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.measured_cards import CardStates, CardValues
from gpuloom.engine.scoring.fragmentation.one_node_cost import NOWHERE, OneNodeCosts
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.useless_share import Barred, Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.model.cards import Flags, Ints, Points

_MOST_PAIRS = 1_000_000
"""So many pairs of a state of cards and of chances are worked out at once, 8 MB; beyond them nodes come in parts."""
_FEW = 256
"""So many cards are looked at one by one in less time than it takes to find out which are alike."""


class WayCosts(NamedTuple):
    """One way to place pods of a shape on nodes.

    cost   by node, thousandths of cards; NOWHERE where it is not possible
    cards  a row a node: the cards that a pod gets, by index
    loses  by node, the number of the classes of large pods that lose it
    """

    cost: Points
    cards: Ints
    loses: Ints


class NodesAndPod(NamedTuple):
    """Nodes before a pod.

    states    of each card; ``fits`` whether it may be taken
    changes   by state, by how much the values of a card change once a share is taken from it
    supply    what the nodes have for typical pods, ``used`` what these can use of it
    free      thousandths of cards by node
    cpu       free milli-cores by node, ``left_cpu`` once the pod has its part
    model     of the node's cards
    cards     how many cards the pod gets
    """

    states: Ints
    fits: Flags
    changes: CardValues
    supply: Supply
    used: Points
    free: Ints
    cpu: Ints
    left_cpu: Ints
    model: Ints
    cards: int


class MeasuredCosts:
    """Works out costs for some nodes at a time; remembers nothing of nodes."""

    def __init__(
        self,
        cards: CardStates,
        useless: UselessShare,
        workload: Workload,
        large_pods: LargePodNodes,
        weights: Parameters,
    ) -> None:
        self._cards = cards
        self._useless = useless
        self._large_pods = large_pods
        self._weights = weights
        self._cpu_per_milli = workload.cpu_per_milli
        self._of_one = np.flatnonzero([one.cards == 1 for one in useless.asked])
        self._together = np.flatnonzero([one.cards != 1 for one in useless.asked])

    def of_one_node(self, change: Callable[[int], tuple[int, float, Points]]) -> OneNodeCosts:
        """Return what works out the same for one node at a time, for pods that change cards like this."""
        return OneNodeCosts(self._cards, self._useless, self._large_pods, self._weights, self.feed, change)

    def supplied(self, states: Ints) -> Points:
        """Return what nodes with cards in these states have for typical pods, a row a node; one row for one node."""
        found: Points = np.add.reduce(self._cards.supplied.take(states, axis=0), axis=-2)
        return found

    def split(self, supplied: Points) -> Supply:
        """Return the parts of such rows."""
        return self._useless.split(supplied)

    def used(self, supply: Supply, model: Ints, cpu: Ints) -> Points:
        """Return what typical pods can use of a supply, with so much free CPU."""
        return self._useless.used(supply, self._useless.chances(model, cpu))

    def used_of(self, supply: Supply, model: int, cpu: int) -> Points:
        """Return the same for one node."""
        return self._useless.used(supply, self._useless.lines[self._useless.line(model, cpu)])

    def barred(self, model: Ints, cpu: Ints) -> Barred:
        """Return how likely typical pods cannot use nodes with so much free CPU, whatever is free on their cards."""
        return self._useless.barred(model, cpu)

    def ways(self, on: NodesAndPod) -> tuple[WayCosts, WayCosts]:
        """Return the cheapest cards, and the cheapest in use already: large pods may make them cheaper.

        NOWHERE on nodes without so many cards that may be taken.
        """
        each = self._cost_each(on)
        if not self._large_pods.classes:
            first = self._way(on, each)
            return first, first
        whole = self._cards.whole[on.states]
        level = self._large_pods.levels(whole.sum(axis=1), on.cpu)
        if not self._large_pods.is_any_able(level):
            first = self._way(on, each)
            return first, first
        ways = self._way(on, each), self._way(on, np.where(whole, NOWHERE, each))
        first, second = (way._replace(loses=self._lose(on, way.cards, whole, level)) for way in ways)
        return first, second

    def _way(self, on: NodesAndPod, each: Points) -> WayCosts:
        """Return the way of the cheapest cards, by which large pods lose nothing as yet."""
        nothing = np.zeros(len(each), np.int64)
        if on.cards == 1:
            cards = each.argmin(axis=1)[:, None]
            return WayCosts(each.min(axis=1), cards, nothing)
        cards = np.argsort(each, axis=1, kind="stable")[:, : on.cards]
        return WayCosts(self._cost_together(on, each, cards), cards, nothing)

    def _lose(self, on: NodesAndPod, chosen: Ints, whole: Flags, level: Ints) -> Ints:
        node = np.arange(len(chosen))[:, None]
        left = whole.sum(axis=1) - whole[node, chosen].sum(axis=1)
        return self._large_pods.losses(level, self._large_pods.levels(left, on.left_cpu))

    def _cost_each(self, on: NodesAndPod) -> Points:
        """Return what each card costs if only that one is taken, NOWHERE where it may not be."""
        weight, changed = self._weights.useless, on.changes.free
        cost = (on.changes.waste + weight * changed).take(on.states)
        # Of thousands of nodes, each array that is not made anew saves time.
        more = self._used_after_each(on)
        np.subtract(on.used[:, None], more, out=more)
        more *= weight
        cost += more
        then = self.strand(on.free[:, None] + changed.take(on.states), on.left_cpu[:, None])
        then -= self.strand(on.free, on.cpu)[:, None]
        then *= self._weights.stranded
        cost += then
        cost[~on.fits] = NOWHERE
        return cost

    def _cost_together(self, on: NodesAndPod, each: Points, chosen: Ints) -> Points:
        """Return what several cards cost together, NOWHERE where one of them may not be taken."""
        if chosen.shape[1] < on.cards:
            return np.full(len(each), NOWHERE)
        changes, node = on.changes, np.arange(len(each))[:, None]
        states = on.states[node, chosen]
        lost = -changes.free[states].sum(axis=1)
        more = self.split(changes.supplied[states].sum(axis=1))
        then = Supply(on.supply.cards + more.cards, on.supply.milli + more.milli)
        cost = self._weights.useless * (on.used - lost - self.used(then, on.model, on.left_cpu))
        cost += changes.waste[states].sum(axis=1)
        cost += self._weights.stranded * (self.strand(on.free - lost, on.left_cpu) - self.strand(on.free, on.cpu))
        return np.where(np.isinf(each[node, chosen]).any(axis=1), NOWHERE, cost)

    def _used_after_each(self, on: NodesAndPod) -> Points:
        """Return what typical pods can use once a share is taken from each card alone.

        For typical pods of one card that is a sum over cards, so only the card that is taken makes a difference.
        """
        table, line = self._useless.lines, self._useless.where(on.model, on.left_cpu)
        supply, changes, chances = on.supply, self.split(on.changes.supplied), table[line]
        used = (supply.milli * chances)[:, self._of_one].sum(axis=1)[:, None] + self._change_each(on, table, line)
        for at in self._together.tolist():
            more = changes.cards[:, at][on.states]
            milli = supply.milli[:, at, None] + changes.milli[:, at][on.states]
            enough = supply.cards[:, at, None] + more >= self._useless.asked[at].cards
            used += enough * milli * chances[:, at, None]
        return used

    def _change_each(self, on: NodesAndPod, table: Points, line: Ints) -> Points:
        """Return by how much what typical pods of one card can use changes with each card."""
        one, changes = self._of_one, self.split(on.changes.supplied).milli
        if on.states.size <= _FEW:
            few = changes[on.states]
            few *= table[line][:, None]
            alone: Points = np.add.reduce(few if len(one) == few.shape[2] else few.take(one, axis=2), axis=2)
            return alone
        change = changes[:, one]
        lines = np.arange(len(table))
        if len(change) * len(table) > _MOST_PAIRS:
            lines, line = np.unique(line, return_inverse=True)
        if len(change) * len(lines) <= _MOST_PAIRS:
            pairs = change @ table[lines][:, one].T
            found: Points = pairs.take(on.states * len(lines) + line[:, None])
            return found
        parts = [change[some] @ table[lines[at], one] for some, at in zip(on.states, line.tolist(), strict=True)]
        return np.array(parts)

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(np.broadcast_shapes(np.shape(free_milli), np.shape(cpu)))
        return np.maximum(0.0, free_milli - cpu / self._cpu_per_milli)

    def strand_one(self, free_milli: int, cpu: float) -> float:
        """Return the same for one node, from plain numbers."""
        return max(0.0, free_milli - self.feed(cpu))

    def feed(self, cpu: float) -> float:
        """Return how much of what is free so much CPU feeds."""
        return cpu / self._cpu_per_milli if self._cpu_per_milli else inf
