"""The same as ``measured_cost`` for one node and a pod that gets one card, from plain numbers.

Nodes change one by one, and arrays with one row take longer to make than what is worked out with them. The cards of a
node are in few states, and what follows from a state is remembered over nodes; costs are equal to the last digit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.measured_cards import MeasuredCards
from gpuloom.engine.scoring.fragmentation.node_cost import NOWHERE
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import NO_LOSS, Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.model.cards import Points

_MOST_STATES = 16_384
"""So many states of cards are remembered with each row of chances."""


class NodeAndPod(NamedTuple):
    """A node before a pod; see :class:`NodesAndPod`.

    codes     of each card, 0 where it may be taken
    supplied  what the node has for typical pods, in one row
    """

    states: Sequence[int]
    codes: bytes
    supplied: Points
    used: float
    free: int
    whole: int
    cpu: int
    left_cpu: int
    model: int


class OneWay(NamedTuple):
    """One way to place a pod on a node; see :class:`WayCosts`."""

    cost: float
    card: int
    loses: int


class _OneCard(NamedTuple):
    """What follows from a card's state and the chances of typical pods, once a share is taken from it.

    alone     what the card itself costs
    used      by how much more typical pods of one card can use
    together  by how much more cards, and thousandths, other typical pods find
    """

    alone: float
    free: int
    used: float
    whole: bool
    together: list[tuple[float, float]]


class OneNodeCosts:
    """Works out costs on one node at a time for one class of pods.

    strand  returns what is free and cannot be fed
    change  returns by how much the values of a card in a state change once a share is taken
    """

    def __init__(
        self,
        cards: MeasuredCards,
        useless: UselessShare,
        reserve: Reserve,
        weights: Parameters,
        strand: Callable[[int, float], float],
        change: Callable[[int], tuple[int, float, Points]],
    ) -> None:
        self._cards = cards
        self._useless = useless
        self._reserve = reserve
        self._weights = weights
        self._strand = strand
        self._change = change
        self._of_one = np.flatnonzero([one.cards == 1 for one in useless.asked])
        self._together = [(at, one.cards) for at, one in enumerate(useless.asked) if one.cards != 1]
        self._known: dict[int, dict[int, _OneCard]] = {}

    def ways(self, on: NodeAndPod) -> tuple[OneWay, OneWay]:
        """Return the cheapest card, and the cheapest that is in use already."""
        line = self._useless.line(on.model, on.left_cpu)
        known = self._known.setdefault(line, {})
        different = {state for state, code in zip(on.states, on.codes, strict=False) if not code}
        found = {state: known.get(state) or self._learn(state, line) for state in different}
        each = self._cost_each(on, found, self._useless.chances_of(line))
        first = self._way(on, each)
        level = self._reserve.level(on.whole, on.cpu) if self._reserve.classes else 0
        if not self._reserve.classes or not self._reserve.is_one_able(level):
            return first, first
        second = self._way(on, {state: cost for state, cost in each.items() if not found[state].whole})
        return self._lose(on, first, level), self._lose(on, second, level)

    def _way(self, on: NodeAndPod, each: dict[int, float]) -> OneWay:
        """Return the cheapest card, of equally cheap ones the first."""
        cost = min(each.values(), default=NOWHERE)
        for at, (state, code) in enumerate(zip(on.states, on.codes, strict=False)):
            if not code and each.get(state) == cost:
                return OneWay(cost, at, NO_LOSS)
        return OneWay(NOWHERE, 0, NO_LOSS)

    def _lose(self, on: NodeAndPod, way: OneWay, level: int) -> OneWay:
        left = on.whole - self._cards.whole.item(on.states[way.card])
        return way._replace(loses=self._reserve.loss(level, self._reserve.level(left, on.left_cpu)))

    def _cost_each(self, on: NodeAndPod, found: dict[int, _OneCard], chances: Points) -> dict[int, float]:
        """Return by state what a card costs."""
        weights, strand = self._weights, self._strand
        milli = on.supplied[len(chances) :]
        used = np.add.reduce((milli * chances)[self._of_one]).item()
        now = strand(on.free, on.cpu)
        costs = {}
        for state, card in found.items():
            then = used + card.used
            for (at, cards), (more_cards, more_milli) in zip(self._together, card.together, strict=True):
                if on.supplied.item(at) + more_cards >= cards:
                    then += (milli.item(at) + more_milli) * chances.item(at)
            cost = card.alone + (on.used - then) * weights.useless
            costs[state] = cost + (strand(on.free + card.free, on.left_cpu) - now) * weights.stranded
        return costs

    def _learn(self, state: int, line: int) -> _OneCard:
        """Return what follows from a card's state and from chances, and remember it."""
        known = self._known[line]
        if len(known) > _MOST_STATES:
            known.clear()
        free, waste, supplied = self._change(state)
        chances = self._useless.chances_of(line)
        milli = supplied[len(chances) :]
        used = np.add.reduce((milli * chances)[self._of_one]).item()
        together = [(supplied.item(at), milli.item(at)) for at, _ in self._together]
        alone = waste + self._weights.useless * free
        found = known[state] = _OneCard(alone, free, used, self._cards.whole.item(state), together)
        return found
