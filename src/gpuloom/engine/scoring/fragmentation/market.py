"""What changes slowly while pods are placed: how scarce each card model is, and how much CPU will be taken."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Ints, Points

_POWER = 1.5
LEVEL_STEPS = 20
"""The level is told in so many steps."""


@dataclass(frozen=True, slots=True)
class Market:
    """What a placement pays beside what it wastes, as it was when it was last worked out.

    scarcity   by model, 0 to 1: how much pods that cannot go elsewhere want its cards
    cpu_level  0 to 1: the part of its CPU to which pods without cards are expected to bring down each node
    """

    scarcity: Points
    cpu_level: float


class MarketStudy:
    """Works out the market of nodes for a workload."""

    def __init__(self, nodes: NodeColumns, workload: Workload) -> None:
        demand = workload.demand_by_models()
        self._nodes = nodes
        self._workload = workload
        self._parts = np.array(list(demand.values()), np.float64)
        # A row for each set of models that pods name: which models are in it.
        self._members = np.array([[model in named for model in nodes.models] for named in demand], np.float64).reshape(
            len(demand), len(nodes.models)
        )

    def now(self, *, with_level: bool = True) -> Market:
        """Return the market for what is free now; without a level where nobody asks for it."""
        nodes, workload = self._nodes, self._workload
        free = nodes.free_milli.sum(axis=1).astype(np.float64)
        free_by_model = np.bincount(nodes.model, free, len(nodes.models)).astype(np.float64)
        scarcity = self._work_out_scarcity(free_by_model)
        if not with_level:
            return Market(scarcity, 1.0)
        expected_cpu = workload.expect_pods(float(free_by_model.sum())) * workload.cpu_of_cardless / workload.pods
        level = find_level(nodes.free_cpu, nodes.capacity_cpu, expected_cpu)
        return Market(scarcity, round(level * LEVEL_STEPS) / LEVEL_STEPS)

    def _work_out_scarcity(self, free_by_model: Points) -> Points:
        free_of_sets = np.maximum((self._members * free_by_model).sum(axis=1), WHOLE)
        wanted: Any = (self._members * (self._parts * free_by_model.sum() / free_of_sets)[:, None]).sum(axis=0)
        return np.minimum(1.0, wanted**_POWER)


def find_level(free: Ints, capacity: Ints, amount: float) -> float:
    """Return the level, 0 to 1, of their capacity to which nodes fall when the freest give until an amount is reached.

    1 when nothing is wanted, 0 when there is not so much.
    """
    there = capacity > 0
    level = free[there] / capacity[there]
    order = np.argsort(-level)
    level, free, capacity = level[order], free[there][order].cumsum(), capacity[there][order].cumsum()
    # What the freest nodes give when they fall to the level of each of them: it grows from one to the next.
    given = free - level * capacity
    last = int(np.searchsorted(given, amount, "right")) - 1
    if amount <= 0 or last < 0:
        return 1.0
    return float(np.clip((free[last] - amount) / capacity[last], 0.0, 1.0))


def scarcity_of(demand: Mapping[frozenset[int], float], free_by_model: Ints) -> Points:
    """Return by model how scarce it is; ``demand`` is the part of all demand that names each set of models."""
    wanted = np.zeros(len(free_by_model))
    for named, part in demand.items():
        members = sorted(named)
        wanted[members] += part * float(free_by_model.sum()) / max(float(free_by_model[members].sum()), WHOLE)
    return np.minimum(1.0, wanted**_POWER)
