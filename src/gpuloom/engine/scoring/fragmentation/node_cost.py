"""What placing a pod on a node costs, as far as it follows from that node alone."""

from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, PodShape, Workload
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

    def possible(self, shape: PodShape, rows: Ints) -> Flags:
        """Return which of these nodes a pod fits by CPU, model and cards."""
        nodes = self._nodes
        enough = nodes.free_cpu[rows] >= shape.cpu_milli
        if not shape.cards:
            return enough
        if shape.models:
            enough &= np.array([model in shape.accepted for model in nodes.models], np.bool_)[nodes.model[rows]]
        return enough & ((nodes.free_milli[rows] >= shape.share_milli).sum(axis=1) >= shape.cards)

    def ways(self, shape: PodShape, rows: Ints) -> tuple[WayCosts, WayCosts]:
        """Return the ways that may be the cheapest on nodes that a pod fits: on any cards, and on cards in use already.

        The reserve asks for wholly free cards, so the latter may be cheaper although they waste more.
        """
        nodes, weights = self._nodes, self._weights
        free, cpu = nodes.free_milli[rows], nodes.free_cpu[rows]
        total, model, left_cpu = free.sum(axis=1), nodes.model[rows], cpu - shape.cpu_milli
        chances = self._useless.chances(model, left_cpu)
        stranded = self.strand(total - shape.demand_milli, left_cpu) - self.strand(total, cpu)
        base = weights.stranded * stranded
        base -= weights.useless * self._useless.of_nodes(free, self._useless.chances(model, cpu))
        whole = free == WHOLE
        whole_cards = whole.sum(axis=1)
        able = self._reserve.able(whole_cards, cpu)
        if not shape.cards:
            cost = base + weights.useless * self._useless.of_nodes(free, chances)
            loses = able & ~self._reserve.able(whole_cards, left_cpu)
            way = WayCosts(cost, np.empty((len(rows), 0), np.int64), loses)
            return way, way
        each = weights.useless * self._useless.after_each(free, shape.share_milli, chances)
        each += self._waste[np.maximum(free - shape.share_milli, 0)] - self._waste[free]
        each[free < shape.share_milli] = NOWHERE
        node = np.arange(len(rows))[:, None]

        def way_on(each: Points) -> WayCosts:
            cards = _cheapest(each, shape.cards)
            cost = base + self._joint(shape, free, each[node, cards], cards, chances)
            left_whole = whole_cards - whole[node, cards].sum(axis=1)
            return WayCosts(cost, cards, able & ~self._reserve.able(left_whole, left_cpu))

        on_any = way_on(each)
        if shape.share_milli == WHOLE or not on_any.loses.any():
            return on_any, on_any
        return on_any, way_on(np.where(whole, NOWHERE, each))

    def _joint(self, shape: PodShape, free: Ints, each: Points, cards: Ints, chances: Points) -> Points:
        """Return what the chosen cards cost together; what each of them costs alone is known."""
        if shape.cards == 1:
            return each[:, 0]
        node = np.arange(len(free))[:, None]
        chosen = free[node, cards]
        left = np.maximum(chosen - shape.share_milli, 0)
        after = free.copy()
        after[node, cards] = left
        cost = self._weights.useless * self._useless.of_nodes(after, chances)
        cost += (self._waste[left] - self._waste[chosen]).sum(axis=1)
        return np.where(np.isinf(each).any(axis=1), NOWHERE, cost)

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return ``D``: what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(len(free_milli))
        return np.maximum(0.0, free_milli - cpu / self._cpu_per_milli)


def _cheapest(each: Points, cards: int) -> Ints:
    """Return the columns of the smallest numbers of each row, the first among equals."""
    return each.argmin(axis=1)[:, None] if cards == 1 else np.argsort(each, axis=1, kind="stable")[:, :cards]
