"""Chooses node and cards for pod after pod, and remembers what follows from one node until that node changes."""

from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.fragmentation.market import work_out_market
from gpuloom.engine.scoring.fragmentation.node_cost import NOWHERE, NodeCosts, WayCosts
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import Parameters
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, PodShape, Workload
from gpuloom.model.cards import Flags, Ints, Points

STEP = 20.0
"""Costs that round to the same multiple of so many thousandths of a card are equal."""
_AMPLE_CPU = 52_000
"""Milli-cores for each card that only few nodes have."""


@dataclass(slots=True)
class _Remembered:
    """The ways of one shape on all nodes, and how much of the log of changes they know."""

    ways: list[WayCosts]
    known: int


class FragmentationChooser:
    """Places each pod where it takes least of what cards are worth to the pods to come.

    The owner of the columns says which node it changed (``note_change``), and now and then that scarcity should be worked
    out again (``refresh_market``). Among nodes of equal cost the first wins.
    """

    def __init__(self, nodes: NodeColumns, workload: Workload, parameters: Parameters) -> None:
        self._nodes = nodes
        self._workload = workload
        self._weights = parameters
        self._reserve = Reserve(workload, parameters.reserve)
        self._costs = NodeCosts(nodes, workload, parameters, self._reserve)
        self._spare = parameters.spare_cpu * np.minimum(1.0, nodes.capacity_cpu / nodes.cards / _AMPLE_CPU) ** 2
        self._remembered: dict[PodShape, _Remembered] = {}
        self._log: list[int] = []
        self._free = nodes.free_milli.sum(axis=1)
        self._able = self._able_now(np.arange(len(nodes)))
        self.refresh_market()

    def note_change(self, row: int) -> None:
        """Say that the columns of a node are other ones now."""
        self._log.append(row)
        self._free[row] = self._nodes.free_milli[row].sum()
        self._able[row] = self._able_now(np.array([row]))[0]

    def refresh_market(self) -> None:
        """Work out again how scarce models are, and how much CPU pods without cards will take."""
        market = work_out_market(self._nodes, self._workload)
        self._price = self._weights.scarcity * market.scarcity[self._nodes.model] + self._spare
        self._cpu_later = market.cpu_level * self._nodes.capacity_cpu

    def choose(self, shape: PodShape, possible: Flags) -> tuple[int, list[int]] | None:
        """Return node and cards for a pod, None if it fits nowhere.

        ``possible`` says for each node whether anything that the columns do not know allows it, as host memory.
        """
        ways = self._ways(shape)
        reserve = self._reserve.prices(self._able.sum(axis=0), float(self._free.sum()))
        with_reserve = [way.cost + (way.loses * reserve).max(axis=1, initial=0.0) for way in ways]
        cost = with_reserve[0] if len(ways) == 1 else np.minimum(*with_reserve)
        cost = np.where(possible, cost + self._depending_on_all(shape), NOWHERE)
        row = int(np.floor(np.round(cost, 6) / STEP + 0.5).argmin())
        if cost[row] == NOWHERE:
            return None
        way = min(range(len(ways)), key=lambda at: with_reserve[at][row])
        return row, ways[way].cards[row].tolist()

    def _depending_on_all(self, shape: PodShape) -> Points:
        """Return the part of the cost that changes with the other nodes and does not depend on the cards."""
        cost = self._price * shape.demand_milli
        if self._weights.stranded_later:
            now = np.minimum(self._nodes.free_cpu, self._cpu_later)
            then = np.minimum(self._nodes.free_cpu - shape.cpu_milli, self._cpu_later)
            more = self._costs.strand(self._free - shape.demand_milli, then) - self._costs.strand(self._free, now)
            cost += self._weights.stranded_later * more
        return cost

    def _ways(self, shape: PodShape) -> list[WayCosts]:
        remembered = self._remembered.get(shape)
        if remembered is None:
            ways = self._costs.ways(shape, np.arange(len(self._nodes)))
            remembered = self._remembered[shape] = _Remembered(ways, len(self._log))
        elif remembered.known < len(self._log):
            rows = np.array(sorted(set(self._log[remembered.known :])))
            for mine, fresh in zip(remembered.ways, self._costs.ways(shape, rows), strict=True):
                mine.cost[rows], mine.cards[rows], mine.loses[rows] = fresh.cost, fresh.cards, fresh.loses
            remembered.known = len(self._log)
        return remembered.ways

    def _able_now(self, rows: Ints) -> Flags:
        whole = (self._nodes.free_milli[rows] == WHOLE).sum(axis=1)
        return self._reserve.able(whole, self._nodes.free_cpu[rows])
