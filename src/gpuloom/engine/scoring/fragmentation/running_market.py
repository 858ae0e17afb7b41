"""The market of nodes that change one by one: sums of whole numbers, so it follows from the nodes as they are now."""

import numpy as np

from gpuloom.engine.scoring.fragmentation.market import LEVEL_STEPS, Market, scarcity_of
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.model.cards import Ints, Points

_MIDDLES = 2 * np.arange(LEVEL_STEPS)[:, None] + 1
"""Halfway between two levels, in fortieths."""


class RunningMarket:
    """What the market of some nodes follows from.

    free_milli  of all cards of all nodes
    """

    def __init__(self, workload: Workload, models: int, reserve: Reserve) -> None:
        self._workload = workload
        self._reserve = reserve
        self._demand = {
            frozenset(int(model) for model in named if model.isdigit()): part
            for named, part in workload.demand_by_models().items()
        }
        self._free_by_model: Ints = np.zeros(models, np.int64)
        self._given: Ints = np.zeros(LEVEL_STEPS, np.int64)
        self._able: Ints = np.zeros((reserve.classes, 1), np.int64)

    @property
    def free_milli(self) -> int:
        """Thousandths of cards that are free on all nodes."""
        return int(self._free_by_model.sum())

    def count(self, model: Ints, free: Ints, whole: Ints, cpu: Ints, capacity: Ints, *, sign: int) -> None:
        """Count nodes in, or out with a ``sign`` of -1: model, free thousandths, unused cards, and CPU of each."""
        np.add.at(self._free_by_model, model, sign * free)
        # What nodes give that fall to a level, in fortieths of milli-cores.
        self._given += sign * np.maximum(2 * LEVEL_STEPS * cpu - _MIDDLES * capacity, 0).sum(axis=1)
        self._able += sign * self._reserve.able(whole, cpu).sum(axis=1, keepdims=True)

    def change(self, model: int, before: tuple[int, int], after: tuple[int, int], cpu: int) -> None:
        """Count one node anew whose CPU is as before: thousandths that are free, and unused cards."""
        self._free_by_model[model] += after[0] - before[0]
        if before[1] != after[1]:
            self._able += self._reserve.able(after[1], cpu)
            self._able -= self._reserve.able(before[1], cpu)

    def now(self) -> Market:
        """Return the market for what is free now; the level is the nearest of its steps."""
        workload, free = self._workload, self._free_by_model
        expected = workload.expect_pods(self.free_milli) * workload.cpu_of_cardless / workload.pods
        level = 1.0 if expected <= 0 else int((self._given > 2 * LEVEL_STEPS * expected).sum()) / LEVEL_STEPS
        return Market(scarcity_of(self._demand, free), level)

    def reserve_prices(self) -> Points:
        """Return a row a class of the reserve: what it charges whoever makes a node unable to serve it."""
        return self._reserve.prices(self._able, float(self.free_milli))
