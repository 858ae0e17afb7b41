"""What placing a pod on a node costs, as far as it follows from that node alone."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.node_facts import NodeFacts
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload, WorkloadShape
from gpuloom.model.cards import Flags, Ints, Points

NOWHERE = np.inf
"""What a placement costs that is not possible."""


class WayCosts(NamedTuple):
    """One way to place pods of a shape on nodes.

    cost   by node, thousandths of cards; NOWHERE where it is not possible
    cards  a row a node: the cards that a pod gets, by index; none for pods of whole cards, which get the first free
    loses  by node, the number of what the reserve loses
    """

    cost: Points
    cards: Ints
    loses: Ints


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Some nodes before a pod of a shape.

    free     a row a node: thousandths of each card
    supply   what the nodes have for typical pods
    chances  of typical pods with the CPU that the pod leaves
    cost     by node, what does not depend on which cards the pod gets
    """

    shape: WorkloadShape
    free: Ints
    supply: Supply
    chances: Points
    cost: Points


class NodeCosts:
    """Works out costs for some nodes at a time, from ``facts``, which their owner keeps up to date."""

    def __init__(self, nodes: NodeColumns, workload: Workload, parameters: Parameters, reserve: Reserve) -> None:
        self._nodes = nodes
        self._weights = parameters
        self._reserve = reserve
        self._useless = UselessShare(workload.typical(), nodes.models)
        self._waste = waste_of_rests(workload)
        self._more_waste: dict[int, Points] = {}
        self._accepting: dict[str, Flags] = {}
        self.facts = NodeFacts(nodes, self._useless, workload, reserve)

    @staticmethod
    def count_ways(shape: WorkloadShape) -> int:
        """Return how many ways there are: on any cards, and for a part of a card on cards that are in use already.

        The reserve asks for wholly free cards, so the latter may be cheaper although they waste more.
        """
        return 2 if shape.is_sharing else 1

    @staticmethod
    def count_remembered(shape: WorkloadShape) -> int:
        """Return how many cards a way names."""
        return shape.cards if shape.is_sharing else 0

    def possible(self, shape: WorkloadShape, rows: Ints) -> Flags:
        """Return which of these nodes a pod fits by CPU, model and cards."""
        enough: Flags = self._nodes.free_cpu[rows] >= shape.cpu_milli
        if not shape.cards:
            return enough
        if shape.models:
            enough &= self._accepts(shape)[rows]
        if shape.cards == 1:
            return enough & (self.facts.largest[rows] >= shape.share_milli)
        if not shape.is_sharing:
            return enough & (self.facts.whole[rows] >= shape.cards)
        return enough & ((self._nodes.free_milli[rows] >= shape.share_milli).sum(axis=1) >= shape.cards)

    def _accepts(self, shape: WorkloadShape) -> Flags:
        """Tell by node whether pods of a shape accept its model."""
        known = self._accepting.get(shape.models)
        if known is None:
            nodes = self._nodes
            by_model = np.array([model in shape.accepted for model in nodes.models], np.bool_)
            known = self._accepting[shape.models] = by_model[nodes.model]
        return known

    def ways(self, shape: WorkloadShape, rows: Ints) -> list[WayCosts]:
        """Return the ways that may be the cheapest on nodes that a pod fits: as many as ``count_ways``."""
        facts = self.facts
        free, level = self._nodes.free_milli[rows], facts.level[rows]
        left_cpu = self._nodes.free_cpu[rows] - shape.cpu_milli
        chances = self._useless.chances(self._nodes.model[rows], left_cpu)
        on = _Nodes(shape, free, facts.supply(rows), chances, self._cost_all(shape, rows, left_cpu))
        reserved = self._reserve.is_any_able(level)

        def lose(broken: Ints | int) -> Ints:
            return self._reserve.losses(level, self._reserve.levels(facts.whole[rows] - broken, left_cpu))

        nothing = np.zeros(len(rows), np.int64)
        if not shape.is_sharing:
            no_cards = np.empty((len(rows), 0), np.int64)
            return [WayCosts(self._cost_whole(on), no_cards, lose(shape.cards) if reserved else nothing)]
        each = self._cost_each(on)
        if not reserved:
            # Wholly free cards cost no more than others.
            return [WayCosts(*self._cheapest(on, each), nothing)] * 2
        node, whole, found = np.arange(len(rows))[:, None], free == WHOLE, []
        for usable in (each, np.where(whole, NOWHERE, each)):
            cost, cards = self._cheapest(on, usable)
            found.append(WayCosts(cost, cards, lose(whole[node, cards].sum(axis=1))))
        return found

    def _cost_all(self, shape: WorkloadShape, rows: Ints, left_cpu: Ints) -> Points:
        """Return what does not depend on which cards the pod gets."""
        facts, weights = self.facts, self._weights
        cost = facts.strand(facts.free[rows] - shape.demand_milli, left_cpu)
        cost -= facts.stranded[rows]
        cost *= weights.stranded
        cost += weights.useless * facts.used[rows]
        cost -= weights.useless * shape.demand_milli
        return cost

    def _cost_whole(self, on: "_Nodes") -> Points:
        """Return what wholly free cards cost, or none: nothing is left of them that could be wasted."""
        used = self._useless.used(on.supply.less_whole(on.shape.cards), on.chances)
        return on.cost - self._weights.useless * used

    def _cost_each(self, on: "_Nodes") -> Points:
        """Return what a share of each card costs if only that card is taken, NOWHERE where there is no room."""
        share = on.shape.share_milli
        used = self._useless.used(self._useless.supply_after_each(on.supply, on.free, share), on.chances[:, None])
        used *= self._weights.useless
        cost = np.subtract(on.cost[:, None], used, out=used)
        cost += self._waste_after(share)[on.free]
        return cost

    def _waste_after(self, share_milli: int) -> Points:
        """Return by the rest of a card how much more is wasted once a share is taken, NOWHERE without room for it."""
        known = self._more_waste.get(share_milli)
        if known is None:
            known = np.full(WHOLE + 1, NOWHERE)
            known[share_milli:] = self._waste[: WHOLE + 1 - share_milli] - self._waste[share_milli:]
            self._more_waste[share_milli] = known
        return known

    def _cheapest(self, on: "_Nodes", each: Points) -> tuple[Points, Ints]:
        """Return what the cheapest cards cost, and which they are: the first among equals."""
        if on.shape.cards == 1:
            return each.min(axis=1), each.argmin(axis=1)[:, None]
        cards = np.argsort(each, axis=1, kind="stable")[:, : on.shape.cards]
        return self._cost_together(on, each, cards), cards

    def _cost_together(self, on: "_Nodes", each: Points, cards: Ints) -> Points:
        """Return what several cards cost together, NOWHERE where one of them has no room."""
        node = np.arange(len(on.free))[:, None]
        chosen = on.free[node, cards]
        left = np.maximum(chosen - on.shape.share_milli, 0)
        then = on.free.copy()
        then[node, cards] = left
        used = self._useless.used(self._useless.supply(then), on.chances)
        cost = on.cost - self._weights.useless * used + (self._waste[left] - self._waste[chosen]).sum(axis=1)
        return np.where(np.isinf(each[node, cards]).any(axis=1), NOWHERE, cost)
