"""What changes slowly while pods are placed: how scarce each card model is, and how much CPU will be taken.

Sums of whole numbers, of nodes that change one by one, so it follows from the nodes as they are now.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import neg
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Ints, Points

_POWER = 1.5
_LEVEL_STEPS = 20
"""The level is told in so many steps."""
_MIDDLES = range(1, 2 * _LEVEL_STEPS, 2)
"""Halfway between two levels, in fortieths."""


@dataclass(frozen=True, slots=True)
class Market:
    """What a placement pays beside what it wastes, as it was when it was last worked out.

    scarcity   by model, 0 to 1: how much pods that cannot go elsewhere want its cards
    cpu_level  0 to 1: the part of its CPU to which pods without cards are expected to bring down each node
    """

    scarcity: Points
    cpu_level: float


class NodeInMarket(NamedTuple):
    """What a node brings to market: free thousandths of cards, unused cards, and free milli-cores."""

    free: int
    whole: int
    cpu: int


class RunningMarket:
    """What the market of some nodes follows from. Few numbers, and one node at a time: plain ones are fastest."""

    def __init__(self, workload: Workload, models: Sequence[str], large_pods: LargePodNodes) -> None:
        self._workload = workload
        self._large_pods = large_pods
        self._demand = [
            ([at for at, model in enumerate(models) if model in named], part)
            for named, part in workload.demand_by_models().items()
        ]
        self._free_by_model = [0] * len(models)
        self._given = [0] * _LEVEL_STEPS
        self._able: Ints = np.zeros((large_pods.classes, 1), np.int64)
        self._prices: list[float] | None = None
        self._unwanted = _scarcity_of([], self._free_by_model)

    def count(self, model: Ints, free: Ints, whole: Ints, cpu: Ints, capacity: Ints, *, sign: int) -> None:
        """Count nodes in, or out with a ``sign`` of -1: model, free thousandths, unused cards, and CPU of each."""
        by_model = np.zeros(len(self._free_by_model), np.int64)
        np.add.at(by_model, model, sign * free)
        self._free_by_model = [
            before + more for before, more in zip(self._free_by_model, by_model.tolist(), strict=True)
        ]
        # What nodes give that fall to a level, in fortieths of milli-cores.
        given = sign * np.maximum(2 * _LEVEL_STEPS * cpu - np.array(_MIDDLES)[:, None] * capacity, 0).sum(axis=1)
        self._given = [before + more for before, more in zip(self._given, given.tolist(), strict=True)]
        self._able += sign * self._large_pods.able(whole, cpu).sum(axis=1, keepdims=True)
        self._prices = None

    def change(self, model: int, capacity: int, before: NodeInMarket, now: NodeInMarket) -> None:
        """Count one node anew."""
        self._free_by_model[model] += now.free - before.free
        if before.cpu != now.cpu:
            then, given = 2 * _LEVEL_STEPS * before.cpu, 2 * _LEVEL_STEPS * now.cpu
            self._given = [
                sum_so_far + max(given - middle * capacity, 0) - max(then - middle * capacity, 0)
                for sum_so_far, middle in zip(self._given, _MIDDLES, strict=True)
            ]
        if self._large_pods.classes and before[1:] != now[1:]:
            was, level = self._large_pods.level(before.whole, before.cpu), self._large_pods.level(now.whole, now.cpu)
            if was != level:
                self._able += self._large_pods.served(level)
                self._able -= self._large_pods.served(was)
        self._prices = None

    def now(self) -> Market:
        """Return the market for what is free now; the level is the nearest of its steps."""
        workload = self._workload
        expected = workload.expect_pods(sum(self._free_by_model)) * workload.cpu_of_cardless / workload.pods
        wanted = 2 * _LEVEL_STEPS * expected
        # The lower the level, the more they give.
        level = 1.0 if expected <= 0 else bisect_left(self._given, -wanted, key=neg) / _LEVEL_STEPS
        if not self._demand:
            return Market(self._unwanted, level)
        return Market(_scarcity_of(self._demand, self._free_by_model), level)

    def large_pod_prices(self) -> list[float]:
        """Return by class what it costs to take a node from it."""
        if self._prices is None:
            self._prices = self._large_pods.prices(self._able, float(sum(self._free_by_model)))
        return self._prices


def _scarcity_of(demand: Sequence[tuple[Sequence[int], float]], free_by_model: Sequence[int]) -> Points:
    """Return by model how scarce it is; ``demand`` has models that are named together, and their part of all demand."""
    wanted, free = np.zeros(len(free_by_model)), sum(free_by_model)
    for named, part in demand:
        wanted[named] += part * free / max(sum([free_by_model[model] for model in named]), WHOLE)
    return np.minimum(1.0, wanted**_POWER)
