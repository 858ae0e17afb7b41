"""The market of nodes that change one by one: sums of whole numbers, so it follows from the nodes as they are now."""

from bisect import bisect_left
from operator import neg
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.market import LEVEL_STEPS, Market, scarcity_of
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.model.cards import Ints

_MIDDLES = range(1, 2 * LEVEL_STEPS, 2)
"""Halfway between two levels, in fortieths."""


class NodeInMarket(NamedTuple):
    """What a node brings to market: free thousandths of cards, unused cards, and free milli-cores."""

    free: int
    whole: int
    cpu: int


class RunningMarket:
    """What the market of some nodes follows from. Few numbers, and one node at a time: plain ones are fastest.

    free_milli  of all cards of all nodes
    """

    def __init__(self, workload: Workload, models: int, reserve: Reserve) -> None:
        self._workload = workload
        self._reserve = reserve
        self._demand = {
            frozenset(int(model) for model in named if model.isdigit()): part
            for named, part in workload.demand_by_models().items()
        }
        self._free_by_model = [0] * models
        self._given = [0] * LEVEL_STEPS
        self._able: Ints = np.zeros((reserve.classes, 1), np.int64)
        self._prices: list[float] | None = None
        self._unwanted = scarcity_of({}, np.zeros(models, np.int64))

    @property
    def free_milli(self) -> int:
        """Thousandths of cards that are free on all nodes."""
        return sum(self._free_by_model)

    def count(self, model: Ints, free: Ints, whole: Ints, cpu: Ints, capacity: Ints, *, sign: int) -> None:
        """Count nodes in, or out with a ``sign`` of -1: model, free thousandths, unused cards, and CPU of each."""
        by_model = np.zeros(len(self._free_by_model), np.int64)
        np.add.at(by_model, model, sign * free)
        self._free_by_model = [
            before + more for before, more in zip(self._free_by_model, by_model.tolist(), strict=True)
        ]
        # What nodes give that fall to a level, in fortieths of milli-cores.
        given = sign * np.maximum(2 * LEVEL_STEPS * cpu - np.array(_MIDDLES)[:, None] * capacity, 0).sum(axis=1)
        self._given = [before + more for before, more in zip(self._given, given.tolist(), strict=True)]
        self._able += sign * self._reserve.able(whole, cpu).sum(axis=1, keepdims=True)
        self._prices = None

    def change(self, model: int, capacity: int, before: NodeInMarket, now: NodeInMarket) -> None:
        """Count one node anew."""
        self._free_by_model[model] += now.free - before.free
        if before.cpu != now.cpu:
            then, given = 2 * LEVEL_STEPS * before.cpu, 2 * LEVEL_STEPS * now.cpu
            self._given = [
                sum_so_far + max(given - middle * capacity, 0) - max(then - middle * capacity, 0)
                for sum_so_far, middle in zip(self._given, _MIDDLES, strict=True)
            ]
        if self._reserve.classes and before[1:] != now[1:]:
            was, level = self._reserve.level(before.whole, before.cpu), self._reserve.level(now.whole, now.cpu)
            if was != level:
                self._able += self._reserve.served(level)
                self._able -= self._reserve.served(was)
        self._prices = None

    def now(self) -> Market:
        """Return the market for what is free now; the level is the nearest of its steps."""
        workload = self._workload
        expected = workload.expect_pods(self.free_milli) * workload.cpu_of_cardless / workload.pods
        wanted = 2 * LEVEL_STEPS * expected
        # The lower the level, the more they give.
        level = 1.0 if expected <= 0 else bisect_left(self._given, -wanted, key=neg) / LEVEL_STEPS
        if not self._demand:
            return Market(self._unwanted, level)
        return Market(scarcity_of(self._demand, np.array(self._free_by_model, np.int64)), level)

    def reserve_prices(self) -> list[float]:
        """Return by class what the reserve charges for it."""
        if self._prices is None:
            self._prices = self._reserve.prices(self._able, float(self.free_milli))
        return self._prices
