"""Chooses node and cards for pod after pod, and remembers what follows from one node until that node changes."""

import numpy as np

from gpuloom.engine.scoring.fragmentation.market import MarketStudy
from gpuloom.engine.scoring.fragmentation.node_cost import NOWHERE, NodeCosts, WayCosts
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload, WorkloadShape
from gpuloom.model.cards import Flags, Ints, Points

STEP = 20.0
"""Costs that round to the same multiple of so many thousandths of a card are equal."""
ROUNDED = 1e6
"""Costs are rounded to so many parts of a thousandth."""
_AMPLE_CPU = 52_000
"""Milli-cores for each card that only few nodes have."""


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
        self._reserve = Reserve(workload, parameters.reserve)
        self._costs = NodeCosts(nodes, workload, parameters, self._reserve)
        self._study = MarketStudy(nodes, workload)
        cpu_per_card = nodes.capacity_cpu / np.maximum(nodes.cards, 1)
        self._spare = parameters.spare_cpu * np.minimum(1.0, cpu_per_card / _AMPLE_CPU) ** 2
        self._remembered: dict[WorkloadShape, _Ways] = {}
        self._log: list[int] = []
        self._seen = 0
        self._cpu_level = -1.0
        self.refresh_market()

    def note_change(self, row: int) -> None:
        """Say that the columns of a node are other ones now."""
        self._log.append(row)

    def refresh_market(self) -> None:
        """Work out again how scarce models are, and how much CPU pods without cards will take."""
        self._catch_up()
        market = self._study.now(with_level=bool(self._weights.stranded_later))
        self._price = self._weights.scarcity * market.scarcity[self._nodes.model] + self._spare
        if market.cpu_level != self._cpu_level:
            self._cpu_level, self._cpu_later = market.cpu_level, market.cpu_level * self._nodes.capacity_cpu
            self._stranded_later = self._strand_later(slice(None))

    def _catch_up(self) -> None:
        """Work out anew what follows from the nodes that changed since."""
        if self._seen == len(self._log):
            return
        rows = list(set(self._log[self._seen :]))
        self._seen = len(self._log)
        self._costs.facts.renew(rows)
        if self._weights.stranded_later:
            self._stranded_later[rows] = self._strand_later(rows)

    def choose(self, shape: WorkloadShape, possible: Flags) -> tuple[int, list[int]] | None:
        """Return node and cards for a pod, None if it fits nowhere.

        ``possible`` says for each node whether anything that the columns do not know allows it, as host memory.
        """
        if not len(possible):
            return None
        self._catch_up()
        remembered = self._remembered.get(shape)
        if remembered is None:
            remembered = _Ways(shape, len(self._nodes), self._costs, known=len(self._log))
            self._remembered[shape] = remembered
        remembered.catch_up(self._log)
        facts, by_way = self._costs.facts, [way.cost for way in remembered.ways]
        if np.count_nonzero(facts.able_nodes):
            charges = self._reserve.charges(self._reserve.prices(facts.able_nodes, float(facts.free_milli)))
            by_way = [way.cost + charges[way.loses] for way in remembered.ways]
        cost = by_way[0] if len(by_way) == 1 else np.minimum(*by_way)
        steps = count_steps(cost + self._depending_on_all(shape))
        steps[~possible] = NOWHERE
        row = int(steps.argmin() if self._order is None else self._order[steps[self._order].argmin()])
        if not possible[row] or cost[row] == NOWHERE:
            return None
        way = min(range(len(by_way)), key=lambda at: by_way[at][row])
        return row, remembered.ways[way].cards[row].tolist() or self._first_whole(row, shape.cards)

    def _first_whole(self, row: int, cards: int) -> list[int]:
        found: list[int] = np.flatnonzero(self._nodes.free_milli[row] == WHOLE)[:cards].tolist()
        return found

    def _depending_on_all(self, shape: WorkloadShape) -> Points:
        """Return the part of the cost that changes with the other nodes and does not depend on the cards."""
        cost = self._price * shape.demand_milli
        if self._weights.stranded_later:
            facts = self._costs.facts
            then = np.minimum(self._nodes.free_cpu - shape.cpu_milli, self._cpu_later)
            more = facts.strand(facts.free - shape.demand_milli, then) - self._stranded_later
            cost += self._weights.stranded_later * more
        return cost

    def _strand_later(self, rows: list[int] | slice) -> Points:
        """Return what is stranded once pods without cards will have taken their CPU, were no other pod placed."""
        cpu = np.minimum(self._nodes.free_cpu[rows], self._cpu_later[rows])
        return self._costs.facts.strand(self._costs.facts.free[rows], cpu)


def count_steps(costs: Points) -> Points:
    """Put costs into steps, in place; they are rounded before as by ``numpy.round``, so that equal sums are equal."""
    costs *= ROUNDED
    np.rint(costs, out=costs)
    costs /= ROUNDED
    costs /= STEP
    costs += 0.5
    return np.floor(costs, out=costs)


class _Ways:
    """The ways of one shape on so many nodes, and how much of the log of changes is known to them."""

    def __init__(self, shape: WorkloadShape, count: int, costs: NodeCosts, *, known: int) -> None:
        self._shape = shape
        self._costs = costs
        self.ways = tuple(
            WayCosts(
                cost=np.full(count, NOWHERE),
                cards=np.zeros((count, costs.count_remembered(shape)), np.int64),
                loses=np.zeros(count, np.int64),
            )
            for _ in range(costs.count_ways(shape))
        )
        self._known = known
        self._renew(np.arange(count))

    def catch_up(self, log: list[int]) -> None:
        """Work out anew what changed since."""
        if self._known < len(log):
            self._renew(np.fromiter(set(log[self._known :]), np.int64))
            self._known = len(log)

    def _renew(self, rows: Ints) -> None:
        for mine in self.ways:
            mine.cost[rows] = NOWHERE
        rows = rows[self._costs.possible(self._shape, rows)]
        if not len(rows):
            return
        for mine, fresh in zip(self.ways, self._costs.ways(self._shape, rows), strict=True):
            mine.cost[rows], mine.cards[rows], mine.loses[rows] = fresh.cost, fresh.cards, fresh.loses
