"""What no policy can beat: a linear program that packs what has arrived, ignoring where nodes end (section 2).

It needs SciPy (the extra ``simulate``). GPUs that are shared follow patterns, multisets of shares that sum
to at most a whole GPU. There are very many, so those that would help are found as they are needed: the prices of the
program say what a share of each size is worth on each type of node, and a knapsack finds the pattern that is worth
most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuloom.simulation.cluster import TraceNode
from gpuloom.simulation.pods import WHOLE_MILLI, TracePod, TraceShape, accepted_models

_TOLERANCE = 1e-6


def has_solver() -> bool:
    """Tell whether SciPy is there."""
    return find_spec("scipy") is not None


def bound_allocation(nodes: Sequence[TraceNode], arrived: Iterable[TracePod]) -> float:
    """Return the most that could be allocated of pods that arrived at empty nodes, in per cent of all GPUs.

    Raises ImportError without SciPy.
    """
    capacity = WHOLE_MILLI * sum(node.gpus for node in nodes)
    program = _Program(_count_types(nodes), Counter(pod.shape for pod in arrived if pod.shape.gpus))
    return 100 * program.solve() / capacity


class _NodeType(NamedTuple):
    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int


def _count_types(nodes: Iterable[TraceNode]) -> Counter[_NodeType]:
    return Counter(_NodeType(node.model, node.gpus, node.cpu_milli, node.memory_mib) for node in nodes if node.gpus)


class _Program:
    """Columns: pods by shape and type of node, GPUs by pattern and type.

    Rows: CPU, memory and GPUs by type; slots by type and size of share; pods by shape.
    """

    def __init__(self, types: Mapping[_NodeType, int], shapes: Mapping[TraceShape, int]) -> None:
        self._types, self._shapes = list(types), list(shapes)
        self._sizes = sorted({shape.milli for shape in shapes if _takes_parts(shape)})
        self._milli_a_step = gcd(WHOLE_MILLI, *self._sizes)
        count = len(self._types)
        self._memory_row, self._gpu_row, self._slot_row = count, 2 * count, 3 * count
        self._pod_row = self._slot_row + count * len(self._sizes)
        self._limits = np.zeros(self._pod_row + len(shapes))
        for number, (node, nodes) in enumerate(types.items()):
            self._limits[number] = nodes * node.cpu_milli
            self._limits[self._memory_row + number] = nodes * node.memory_mib
            self._limits[self._gpu_row + number] = nodes * node.gpus
        self._limits[self._pod_row :] = list(shapes.values())
        self._values: list[int] = []
        self._cells: list[tuple[int, int, int]] = []
        for place, shape in enumerate(self._shapes):
            for number, node in enumerate(self._types):
                if _may_go(shape, node):
                    self._add_pods(place, shape, number)
        for number in range(count):
            for place, size in enumerate(self._sizes):
                self._add_pattern(number, {place: WHOLE_MILLI // size})

    def solve(self) -> float:
        """Return the most milli of GPU that can be allocated."""
        if not any(self._values):
            return 0.0
        while True:
            allocated, prices = self._ask()
            slots = prices[self._slot_row : self._pod_row].reshape(len(self._types), -1)
            found = [(number, self._best_pattern(row)) for number, row in enumerate(slots)]
            gpus = prices[self._gpu_row : self._slot_row]
            better = [
                (number, pattern)
                for number, pattern in found
                if sum(slots[number, place] * times for place, times in pattern.items())
                > gpus[number] + _TOLERANCE * WHOLE_MILLI
            ]
            if not better:
                return allocated
            for number, pattern in better:
                self._add_pattern(number, pattern)

    def _add_pods(self, place: int, shape: TraceShape, number: int) -> None:
        column = self._add_column(shape.demand)
        self._cells += [
            (number, column, shape.cpu_milli),
            (self._memory_row + number, column, shape.memory_mib),
            (self._pod_row + place, column, 1),
        ]
        if _takes_parts(shape):
            self._cells.append((self._find_slot_row(number, self._sizes.index(shape.milli)), column, shape.gpus))
        else:
            self._cells.append((self._gpu_row + number, column, shape.gpus))

    def _add_pattern(self, number: int, pattern: Mapping[int, int]) -> None:
        column = self._add_column(0)
        self._cells.append((self._gpu_row + number, column, 1))
        self._cells += [(self._find_slot_row(number, place), column, -times) for place, times in pattern.items()]

    def _add_column(self, value: int) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _find_slot_row(self, number: int, place: int) -> int:
        return self._slot_row + number * len(self._sizes) + place

    def _ask(self) -> tuple[float, NDArray[np.float64]]:
        """Solve the program with the patterns known so far; return its value and the price of each row."""
        from scipy.optimize import linprog  # noqa: PLC0415 - an extra: most installations have no SciPy
        from scipy.sparse import csr_array  # noqa: PLC0415 - as above

        rows, columns, cells = zip(*self._cells, strict=True)
        matrix = csr_array((cells, (rows, columns)), shape=(len(self._limits), len(self._values)), dtype=float)
        answer = linprog(-np.array(self._values, float), A_ub=matrix, b_ub=self._limits, method="highs")
        return -float(answer.fun), -answer.ineqlin.marginals

    def _best_pattern(self, prices: NDArray[np.float64]) -> dict[int, int]:
        """Return the pattern that is worth most: by place of the size, how often it is in it."""
        worth = [0.0] * (WHOLE_MILLI // self._milli_a_step + 1)
        chosen = [-1] * len(worth)
        steps = [size // self._milli_a_step for size in self._sizes]
        useful = [(place, steps[place], price) for place, price in enumerate(prices.tolist()) if price > 0]
        for at in range(1, len(worth)):
            worth[at] = worth[at - 1]
            for place, step, price in useful:
                if step <= at and worth[at - step] + price > worth[at]:
                    worth[at], chosen[at] = worth[at - step] + price, place
        pattern: Counter[int] = Counter()
        at = len(worth) - 1
        while at > 0:
            if chosen[at] < 0:
                at -= 1
            else:
                pattern[chosen[at]] += 1
                at -= steps[chosen[at]]
        return dict(pattern)


def _takes_parts(shape: TraceShape) -> bool:
    """Tell whether a pod leaves something of each of its GPUs to others."""
    return shape.milli < WHOLE_MILLI


def _may_go(shape: TraceShape, node: _NodeType) -> bool:
    """Tell whether a type of node accepts a pod at all: one empty node of it has room."""
    wanted = accepted_models(shape.spec)
    return (
        (not wanted or node.model in wanted)
        and shape.gpus <= node.gpus
        and shape.cpu_milli <= node.cpu_milli
        and shape.memory_mib <= node.memory_mib
    )
