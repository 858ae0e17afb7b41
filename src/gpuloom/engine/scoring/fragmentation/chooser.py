"""Chooses node and cards for pod after pod, and remembers what follows from one node until that node changes."""

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.market import NodeInMarket, RunningMarket
from gpuloom.engine.scoring.fragmentation.measured_cost import NodesAndPod
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.one_node_cost import NOWHERE
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.rest_cards import RestCards, RestCosts
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload, WorkloadShape
from gpuloom.model.cards import Flags, Ints, Points

STEP = 20.0
"""Costs that round to the same multiple of so many thousandths of a card are equal."""
ROUNDED = 1e6
"""Costs are rounded to so many parts of a thousandth."""


class FragmentationChooser:
    """Places each pod where it takes least of what cards are worth to the pods to come.

    The owner of the columns says which node it changed (``note_change``), and now and then that the market should be
    worked out again (``refresh_market``). Among nodes of equal cost the first wins, in a given order of rows or else in
    that of the columns.
    """

    def __init__(
        self, nodes: NodeColumns, workload: Workload, parameters: Parameters, order: Ints | None = None
    ) -> None:
        self._nodes = nodes
        self._order = order
        self._weights = parameters
        useless = UselessShare(workload.typical(), nodes.models)
        self._cards = RestCards(useless, waste_of_rests(workload))
        self._large_pods = LargePodNodes(workload, parameters.large_pods)
        self._costs = RestCosts(self._cards, useless, workload, self._large_pods, parameters)
        self._market = RunningMarket(workload, nodes.models, self._large_pods)
        self._spare = parameters.price_spare_cpu(nodes.capacity_cpu, nodes.cards)
        self._remembered: dict[WorkloadShape, _Ways] = {}
        self._brought = [NodeInMarket(0, 0, 0)] * len(nodes)
        self._free: Ints = np.zeros(len(nodes), np.int64)
        self._log = list(range(len(nodes)))
        self._seen = 0
        self.refresh_market()

    def note_change(self, row: int) -> None:
        """Say that the columns of a node are other ones now."""
        self._log.append(row)

    def refresh_market(self) -> None:
        """Work out again how scarce models are, and how much CPU pods without cards will take."""
        self._catch_up()
        market = self._market.now()
        self._price = self._weights.scarcity * market.scarcity[self._nodes.model] + self._spare
        self._cpu_later = market.cpu_level * self._nodes.capacity_cpu

    def _catch_up(self) -> None:
        """Bring the nodes that changed since to the market as they are now."""
        nodes = self._nodes
        for row in set(self._log[self._seen :]):
            each = nodes.free_milli[row].tolist()
            now = NodeInMarket(sum(each), each.count(WHOLE), nodes.free_cpu.item(row))
            self._market.change(nodes.model.item(row), nodes.capacity_cpu.item(row), self._brought[row], now)
            self._brought[row], self._free[row] = now, now.free
        self._seen = len(self._log)

    def choose(self, shape: WorkloadShape, possible: Flags) -> tuple[int, list[int]] | None:
        """Return node and cards for a pod, None if it fits nowhere.

        ``possible`` says for each node whether anything that the columns do not know allows it, as host memory.
        """
        if not len(possible):
            return None
        self._catch_up()
        ways = self._remembered.get(shape)
        if ways is None:
            ways = self._remembered[shape] = _Ways(shape, self._nodes, self._cards, self._costs)
        ways.catch_up(self._log)
        by_way = ways.cost
        if self._large_pods.classes:
            by_way = by_way + self._large_pods.charges(self._market.large_pod_prices())[ways.loses]
        cost = np.minimum(by_way[0], by_way[1])
        steps = count_steps(cost + self._depending_on_all(shape))
        steps[~possible] = NOWHERE
        row = int(steps.argmin() if self._order is None else self._order[steps[self._order].argmin()])
        if not possible[row] or cost[row] == NOWHERE:
            return None
        cards: list[int] = ways.cards[by_way[:, row].argmin(), row].tolist()
        return row, cards

    def _depending_on_all(self, shape: WorkloadShape) -> Points:
        """Return the part of the cost that changes with the other nodes and does not depend on the cards."""
        cost = self._price * shape.demand_milli
        if self._weights.stranded_later:
            free, cpu = self._free, self._nodes.free_cpu
            then = self._costs.strand(free - shape.demand_milli, np.minimum(cpu - shape.cpu_milli, self._cpu_later))
            then -= self._costs.strand(free, np.minimum(cpu, self._cpu_later))
            cost += self._weights.stranded_later * then
        return cost


def count_steps(costs: Points) -> Points:
    """Put costs into steps, in place; they are rounded before as by ``numpy.round``, so that equal sums are equal."""
    costs *= ROUNDED
    np.rint(costs, out=costs)
    costs /= ROUNDED
    costs /= STEP
    costs += 0.5
    return np.floor(costs, out=costs)


class _Ways:
    """What the ways to place pods of a shape cost on nodes: see :class:`WayCosts`, with a row for each of the two."""

    def __init__(self, shape: WorkloadShape, nodes: NodeColumns, cards: RestCards, costs: RestCosts) -> None:
        self._shape = shape
        self._nodes = nodes
        self._states = cards
        self._costs = costs
        accepts = [not (shape.cards and shape.models) or model in shape.accepted for model in nodes.models]
        self._accepts = np.array(accepts, np.bool_)
        count, columns = nodes.free_milli.shape
        self.cost: Points = np.full((2, count), NOWHERE)
        self.cards: Ints = np.zeros((2, count, min(shape.cards, columns)), np.int64)
        self.loses: Ints = np.zeros((2, count), np.int64)
        self._known = 0

    def catch_up(self, log: list[int]) -> None:
        """Work out anew what changed since."""
        if self._known < len(log):
            self._renew(np.fromiter(set(log[self._known :]), np.int64))
            self._known = len(log)

    def _renew(self, rows: Ints) -> None:
        """Work out which cards of these nodes are cheapest, and their cost: NOWHERE where the shape does not fit."""
        nodes, shape, costs = self._nodes, self._shape, self._costs
        self.cost[:, rows] = NOWHERE
        possible = self._accepts[nodes.model[rows]] & (nodes.free_cpu[rows] >= shape.cpu_milli)
        possible &= (nodes.free_milli[rows] >= shape.share_milli).sum(axis=1) >= shape.cards
        rows = rows[possible]
        if not len(rows):
            return
        states, cpu, model = nodes.free_milli[rows], nodes.free_cpu[rows], nodes.model[rows]
        supply = costs.split(costs.supplied(states))
        on = NodesAndPod(
            states=states,
            fits=states >= shape.share_milli,
            changes=self._states.take(shape.share_milli),
            supply=supply,
            used=costs.used(supply, model, cpu),
            free=states.sum(axis=1),
            cpu=cpu,
            left_cpu=cpu - shape.cpu_milli,
            model=model,
            cards=shape.cards,
        )
        for at, way in enumerate(costs.ways(on)):
            self.cost[at, rows], self.cards[at, rows], self.loses[at, rows] = way
