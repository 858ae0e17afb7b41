"""What placing a pod on a node costs, as far as it follows from that node alone."""

from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload, WorkloadShape
from gpuloom.model.cards import Flags, Ints, Points

NOWHERE = np.inf
"""What a placement costs that is not possible."""


@dataclass(frozen=True, slots=True)
class WayCosts:
    """One way to place pods of a shape on nodes.

    cost   by node, thousandths of cards; NOWHERE where it is not possible
    cards  a row a node: the cards that a pod gets, by index
    loses  a row a class of the reserve, a column a node: whether the node becomes unable to serve it
    """

    cost: Points
    cards: Ints
    loses: Flags


class NodeCosts:
    """Works out costs for some nodes at a time; remembers nothing of nodes."""

    def __init__(self, nodes: NodeColumns, workload: Workload, parameters: Parameters, reserve: Reserve) -> None:
        self._nodes = nodes
        self._weights = parameters
        self._reserve = reserve
        self._useless = UselessShare(workload.typical(), nodes.models)
        self._waste = waste_of_rests(workload)
        self._cpu_per_milli = workload.cpu_per_milli

    @staticmethod
    def count_ways(shape: WorkloadShape) -> int:
        """Return how many ways there are: on any cards, and for a part of a card on cards that are in use already.

        The reserve asks for wholly free cards, so the latter may be cheaper although they waste more.
        """
        return 1 if shape.share_milli in {0, WHOLE} else 2

    def possible(self, shape: WorkloadShape, rows: Ints) -> Flags:
        """Return which of these nodes a pod fits by CPU, model and cards."""
        nodes = self._nodes
        enough = nodes.free_cpu[rows] >= shape.cpu_milli
        if not shape.cards:
            return enough
        if shape.models:
            enough &= np.array([model in shape.accepted for model in nodes.models], np.bool_)[nodes.model[rows]]
        return enough & ((nodes.free_milli[rows] >= shape.share_milli).sum(axis=1) >= shape.cards)

    def ways(self, shape: WorkloadShape, rows: Ints) -> list[WayCosts]:
        """Return the ways that may be the cheapest on nodes that a pod fits: as many as ``count_ways``."""
        nodes = self._nodes
        free, cpu, model = nodes.free_milli[rows], nodes.free_cpu[rows], nodes.model[rows]
        left_cpu = cpu - shape.cpu_milli
        total = free.sum(axis=1)
        stranded = self.strand(total - shape.demand_milli, left_cpu) - self.strand(total, cpu)
        base = self._weights.stranded * stranded
        chances = self._useless.chances(model, cpu), self._useless.chances(model, left_cpu)
        whole = free == WHOLE
        whole_cards = whole.sum(axis=1)
        able = self._reserve.able(whole_cards, cpu)
        node = np.arange(len(rows))[:, None]

        def way(cards: Ints, cost: Points) -> WayCosts:
            left_whole = whole_cards - whole[node, cards].sum(axis=1)
            return WayCosts(base + cost, cards, able & ~self._reserve.able(left_whole, left_cpu))

        if shape.share_milli in {0, WHOLE}:
            cards = np.argsort(~whole, axis=1, kind="stable")[:, : shape.cards]
            return [way(cards, self._cost_together(shape, free, cards, *chances))]
        each = self._cost_each(shape, free, *chances)
        found = []
        for usable in (each, np.where(whole, NOWHERE, each)):
            cards = _cheapest(usable, shape.cards)
            alone = usable[node, cards]
            cost = alone[:, 0] if shape.cards == 1 else self._cost_together(shape, free, cards, *chances)
            found.append(way(cards, np.where(np.isinf(alone).any(axis=1), NOWHERE, cost)))
        return found

    def _cost_each(self, shape: WorkloadShape, free: Ints, before: Points, after: Points) -> Points:
        """Return what a share of each card costs if only that card is taken, NOWHERE where there is no room."""
        used, still_used = self._useless.used_before_and_after(free, shape.share_milli, before, after)
        cost = self._weights.useless * (used[:, None] - still_used - shape.share_milli)
        cost += self._waste[np.maximum(free - shape.share_milli, 0)] - self._waste[free]
        cost[free < shape.share_milli] = NOWHERE
        return cost

    def _cost_together(self, shape: WorkloadShape, free: Ints, cards: Ints, before: Points, after: Points) -> Points:
        """Return what the chosen cards cost together."""
        node = np.arange(len(free))[:, None]
        chosen = free[node, cards]
        left = np.maximum(chosen - shape.share_milli, 0)
        then = free.copy()
        then[node, cards] = left
        useless = self._useless.used(free, before) - self._useless.used(then, after) - shape.demand_milli
        return self._weights.useless * useless + (self._waste[left] - self._waste[chosen]).sum(axis=1)

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return ``D``: what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(len(free_milli))
        return np.maximum(0.0, free_milli - cpu / self._cpu_per_milli)


def _cheapest(each: Points, cards: int) -> Ints:
    """Return the columns of the smallest numbers of each row, the first among equals."""
    return each.argmin(axis=1)[:, None] if cards == 1 else np.argsort(each, axis=1, kind="stable")[:, :cards]
