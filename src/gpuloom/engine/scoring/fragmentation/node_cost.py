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
    """One way to place pods of a shape, a row a node.

    cost   thousandths of cards; NOWHERE where it is not possible
    cards  the cards that pods get, by index
    loses  by class of the reserve, whether the node becomes unable to serve it
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
        self.cpu_per_milli = workload.cpu_per_milli

    def accept(self, shape: PodShape) -> Flags:
        """Return by model whether pods of a shape accept it."""
        named = shape.accepted if shape.cards else frozenset()
        return np.array([not named or model in named for model in self._nodes.models], np.bool_)

    def ways(self, shape: PodShape, rows: Ints) -> list[WayCosts]:
        """Return the ways that may be the cheapest on these nodes: on any cards, and on cards that are in use already.

        The reserve asks for wholly free cards, so the latter may be cheaper although they waste more.
        """
        nodes, weights = self._nodes, self._weights
        free, cpu = nodes.free_milli[rows], nodes.free_cpu[rows]
        model = nodes.model[rows]
        total = free.sum(axis=1)
        before = weights.useless * self._useless.of_nodes(free, self._useless.chances(model, cpu))
        before += weights.stranded * self.strand(total, cpu)
        chances = self._useless.chances(model, cpu - shape.cpu_milli)
        after = weights.stranded * self.strand(total - shape.demand_milli, cpu - shape.cpu_milli)
        possible = (cpu >= shape.cpu_milli) & self.accept(shape)[model]
        base = np.where(possible, after - before, NOWHERE)
        whole = free == WHOLE
        able = self._reserve.able(whole.sum(axis=1), cpu)
        left_cpu = cpu - shape.cpu_milli
        if not shape.cards:
            cost = base + weights.useless * self._useless.of_nodes(free, chances)
            loses = able & ~self._reserve.able(whole.sum(axis=1), left_cpu)
            return [WayCosts(cost, np.empty((len(rows), 0), np.int64), loses)]
        each = weights.useless * self._useless.after_each(free, shape.share_milli, chances)
        each += self._waste[np.maximum(free - shape.share_milli, 0)] - self._waste[free]
        each[free < shape.share_milli] = NOWHERE
        ways = []
        for usable in (each,) if shape.share_milli == WHOLE else (each, np.where(whole, NOWHERE, each)):
            cards = np.argsort(usable, axis=1, kind="stable")[:, : shape.cards]
            cost = base + self._joint(shape, free, usable, cards, chances)
            broken = np.take_along_axis(whole, cards, axis=1).sum(axis=1)
            ways.append(WayCosts(cost, cards, able & ~self._reserve.able(whole.sum(axis=1) - broken, left_cpu)))
        return ways

    def _joint(self, shape: PodShape, free: Ints, each: Points, cards: Ints, chances: Points) -> Points:
        """Return what the chosen cards cost together; each of one card alone is known."""
        single = np.take_along_axis(each, cards, axis=1)
        if shape.cards == 1:
            return single[:, 0]
        if cards.shape[1] < shape.cards:
            return np.full(len(free), NOWHERE)
        chosen = np.take_along_axis(free, cards, axis=1)
        left = np.maximum(chosen - shape.share_milli, 0)
        after = free.copy()
        np.put_along_axis(after, cards, left, axis=1)
        cost = self._weights.useless * self._useless.of_nodes(after, chances)
        cost += (self._waste[left] - self._waste[chosen]).sum(axis=1)
        return np.where(np.isinf(single).any(axis=1), NOWHERE, cost)

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return ``D``: what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self.cpu_per_milli:
            return np.zeros(len(free_milli))
        return np.maximum(0.0, free_milli - cpu / self.cpu_per_milli)
