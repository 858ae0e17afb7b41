"""The same as ``measured_cost`` for one node, from plain numbers.

Nodes change one by one, and arrays with one row take longer to make than what is worked out with them. The cards of a
node are in few states, and what follows from a state is remembered over nodes; costs are equal to the last digit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.large_pod_nodes import NO_LOSS, LargePodNodes
from gpuloom.engine.scoring.fragmentation.measured_cards import CardStates
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.model.cards import Points

NOWHERE = np.inf
"""What a placement costs that is not possible."""
_MOST_NUMBERS = 65_536
"""So many numbers are remembered: for a state with a row of chances one, and one for each that pods of several ask."""


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
    cards: int


class OneWay(NamedTuple):
    """One way to place a pod on a node; see :class:`WayCosts`. Where it is not possible there are no cards."""

    cost: float
    cards: list[int]
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

    feed    returns how much of what is free so much CPU feeds
    change  returns by how much the values of a card in a state change once a share is taken

    ``remembered`` states of cards with a row of chances are known so far; at ``most_remembered`` it begins anew.
    """

    def __init__(
        self,
        cards: CardStates,
        useless: UselessShare,
        large_pods: LargePodNodes,
        weights: Parameters,
        feed: Callable[[float], float],
        change: Callable[[int], tuple[int, float, Points]],
    ) -> None:
        self._cards = cards
        self._useless = useless
        self._large_pods = large_pods
        self._weights = weights
        self._feed = feed
        self._change = change
        self._of_one = np.flatnonzero([one.cards == 1 for one in useless.asked])
        self._together = [(at, one.cards) for at, one in enumerate(useless.asked) if one.cards != 1]
        self._known: dict[int, dict[int, _OneCard]] = {}
        self.remembered = 0
        self.most_remembered = _MOST_NUMBERS // (1 + len(self._together))

    def ways(self, on: NodeAndPod) -> tuple[OneWay, OneWay]:
        """Return the cheapest cards, and the cheapest that are in use already."""
        line = self._useless.line(on.model, on.left_cpu)
        known = self._known.setdefault(line, {})
        chances: Points = self._useless.lines[line]
        different = {state for state, code in zip(on.states, on.codes, strict=False) if not code}
        if not known.keys() >= different:
            known = self._learn(line, different, chances)
        found = {state: known[state] for state in different}
        each = self._cost_each(on, found, chances)
        first = self._way(on, each, chances)
        level = self._large_pods.level(on.whole, on.cpu) if self._large_pods.classes else 0
        if not self._large_pods.classes or not self._large_pods.is_one_able(level):
            return first, first
        first = self._lose(on, first, level)
        if not any(found[on.states[card]].whole for card in first.cards):
            return first, first
        in_use = {state: NOWHERE if found[state].whole else cost for state, cost in each.items()}
        return first, self._lose(on, self._way(on, in_use, chances), level)

    def _way(self, on: NodeAndPod, by_state: dict[int, float], chances: Points) -> OneWay:
        """Return the way of the cheapest cards, of equally cheap ones the first."""
        each = [NOWHERE if code else by_state[state] for state, code in zip(on.states, on.codes, strict=False)]
        cards = sorted(range(len(each)), key=each.__getitem__)[: on.cards]
        if len(cards) < on.cards or each[cards[-1]] == NOWHERE:
            return OneWay(NOWHERE, [], NO_LOSS)
        return OneWay(each[cards[0]] if on.cards == 1 else self._cost_together(on, cards, chances), cards, NO_LOSS)

    def _cost_together(self, on: NodeAndPod, cards: list[int], chances: Points) -> float:
        """Return what several cards cost together."""
        weights, lost, wastes, supplied = self._weights, 0, [], on.supplied
        for card in cards:
            free, waste, more = self._change(on.states[card])
            lost -= free
            wastes.append(waste)
            supplied = supplied + more
        used = self._useless.used(self._useless.split(supplied), chances).item()
        cost = weights.useless * (on.used - lost - used)
        cost += np.add.reduce(wastes).item()
        now, then = max(0.0, on.free - self._feed(on.cpu)), max(0.0, on.free - lost - self._feed(on.left_cpu))
        return cost + weights.stranded * (then - now)

    def _lose(self, on: NodeAndPod, way: OneWay, level: int) -> OneWay:
        left = on.whole - sum([self._cards.whole.item(on.states[card]) for card in way.cards])
        return way._replace(loses=self._large_pods.loss(level, self._large_pods.level(left, on.left_cpu)))

    def _cost_each(self, on: NodeAndPod, found: dict[int, _OneCard], chances: Points) -> dict[int, float]:
        """Return by state what a card costs."""
        weights, supplied, fed = self._weights, on.supplied, self._feed(on.left_cpu)
        milli = supplied[len(chances) :]
        used = np.add.reduce((milli * chances).take(self._of_one)).item()
        now = max(0.0, on.free - self._feed(on.cpu))
        others = [(supplied.item(at), milli.item(at), cards, chances.item(at)) for at, cards in self._together]
        costs = {}
        for state, card in found.items():
            then = used + card.used
            for (there, free, cards, chance), (more_cards, more_free) in zip(others, card.together, strict=True):
                if there + more_cards >= cards:
                    then += (free + more_free) * chance
            cost = card.alone + (on.used - then) * weights.useless
            costs[state] = cost + (max(0.0, on.free + card.free - fed) - now) * weights.stranded
        return costs

    def _learn(self, line: int, states: set[int], chances: Points) -> dict[int, _OneCard]:
        """Remember what follows from states of cards and from chances; return all that is known of these."""
        if self.remembered >= self.most_remembered:
            self._known.clear()
            self.remembered = 0
        known = self._known.setdefault(line, {})
        changes = [(state, *self._change(state)) for state in states - known.keys()]
        self.remembered += len(changes)
        milli = np.array([supplied for *_, supplied in changes])[:, len(chances) :]
        used = np.add.reduce((milli * chances).take(self._of_one, axis=1), axis=1).tolist()
        for (state, free, waste, supplied), more in zip(changes, used, strict=True):
            together = [(supplied.item(at), supplied.item(len(chances) + at)) for at, _ in self._together]
            alone = waste + self._weights.useless * free
            known[state] = _OneCard(alone, free, more, self._cards.whole.item(state), together)
        return known
