"""The simulated cluster: columns over its nodes, changed by one placement at a time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuloom.simulation.pods import WHOLE_MILLI, TraceShape, accepted_models

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SLOTS = 10
"""So many pods may share a GPU."""
_USUAL_GPUS = 8
_MOST_SHAPES = 1024
"""For so many shapes it is remembered which nodes a pod fits."""
_FEW = 8
"""Up to so many nodes are looked at in less time one by one than all together."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node of a trace; all its GPUs are of one model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class Choice(NamedTuple):
    """Where a pod goes: the index of a node, and the indexes of its GPUs that the pod gets."""

    node: int
    cards: tuple[int, ...]


class TraceCluster:
    """Nodes in the order of their names: the lowest index is the smallest name.

    models         of GPUs; ``model`` is by node an index into them
    gpus           by node, as ``cpu_capacity`` and ``memory_capacity``: these never change
    cpu_free       by node, milli-cores; ``memory_free`` MiB
    milli_free     by node and GPU, 0 beyond a node's GPUs; ``slots_free`` the same in pods
    total_free     by node, the sum of ``milli_free``
    largest_free   by node, what its emptiest GPU with a slot has to give
    whole_free     by node, how many of its GPUs are entirely free
    changes        the node of every placement so far, in order; its length marks what somebody knows
    arrivals       how many pods have arrived before the one that is decided now
    """

    def __init__(self, nodes: Iterable[TraceNode]) -> None:
        ordered = sorted(nodes, key=lambda node: node.name)
        self.names = tuple(node.name for node in ordered)
        self.models = tuple(sorted({node.model for node in ordered}))
        self.model = _column(self.models.index(node.model) for node in ordered)
        self.gpus = _column(node.gpus for node in ordered)
        self.cpu_capacity = _column(node.cpu_milli for node in ordered)
        self.memory_capacity = _column(node.memory_mib for node in ordered)
        self.cpu_free, self.memory_free = self.cpu_capacity.copy(), self.memory_capacity.copy()
        there = np.arange(max(_USUAL_GPUS, *self.gpus, 0)) < self.gpus[:, None]
        self.milli_free: Ints = np.where(there, WHOLE_MILLI, 0)
        self.slots_free: Ints = np.where(there, SLOTS, 0)
        self.total_free = self.milli_free.sum(1)
        self.largest_free = self.milli_free.max(1, initial=0)
        self.whole_free = self.gpus.copy()
        self.changes: list[int] = []
        self.arrivals = 0
        self._accepting: dict[str, Mask] = {}
        self._fitting: dict[TraceShape, tuple[Mask, int]] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def capacity(self) -> int:
        """Milli of GPU that the cluster has in all."""
        return WHOLE_MILLI * int(self.gpus.sum())

    def accepts(self, spec: str) -> Mask:
        """Tell by node whether its model is one that a pod accepts."""
        known = self._accepting.get(spec)
        if known is None:
            wanted = accepted_models(spec)
            accepted = np.array([not wanted or model in wanted for model in self.models], bool)
            known = self._accepting[spec] = accepted[self.model]
        return known

    def find_fitting(self, shape: TraceShape) -> Mask:
        """Tell by node whether a pod fits there now; the answer is kept, and holds until the next placement."""
        fits, known = self._fitting.get(shape, (None, 0))
        changed = self.changes[known:]
        if fits is None or len(changed) > _FEW:
            if len(self._fitting) >= _MOST_SHAPES:
                self._fitting.clear()
            fits = self._fits(shape, slice(None))
        else:
            # No pod leaves: a node that is full stays full.
            for node in changed:
                if fits[node]:
                    fits[node] = self._fits(shape, node)
        self._fitting[shape] = fits, len(self.changes)
        return fits

    def _fits(self, shape: TraceShape, nodes: Any) -> Any:
        """Tell whether a pod fits; ``nodes`` one or all."""
        fits = (self.cpu_free[nodes] >= shape.cpu_milli) & (self.memory_free[nodes] >= shape.memory_mib)
        if shape.gpus == 0:
            return fits
        if shape.spec:
            fits = fits & self.accepts(shape.spec)[nodes]
        if shape.gpus == 1:
            return fits & (self.largest_free[nodes] >= shape.milli)
        if shape.milli == WHOLE_MILLI:
            return fits & (self.whole_free[nodes] >= shape.gpus)
        return fits & (self.usable(shape.milli, nodes).sum(-1) >= shape.gpus)

    def usable(self, milli: int, nodes: Any = slice(None)) -> Mask:
        """Tell by node and GPU which can give so much to one more pod; ``nodes`` one, some or all."""
        usable: Mask = (self.milli_free[nodes] >= milli) & (self.slots_free[nodes] > 0)
        return usable

    def could_ever_fit(self, shape: TraceShape) -> bool:
        """Tell whether a pod would fit a node of this cluster if that were empty."""
        fits = (self.cpu_capacity >= shape.cpu_milli) & (self.memory_capacity >= shape.memory_mib)
        if shape.gpus:
            fits &= (self.gpus >= shape.gpus) & self.accepts(shape.spec)
        return bool(fits.any())

    def place(self, shape: TraceShape, choice: Choice) -> None:
        """Give a pod its part of a node."""
        node = choice.node
        self.cpu_free[node] -= shape.cpu_milli
        self.memory_free[node] -= shape.memory_mib
        if choice.cards:
            milli, slots = self.milli_free[node], self.slots_free[node]
            for card in choice.cards:
                milli[card] -= shape.milli
                slots[card] -= 1
            self.total_free[node] -= shape.demand
            self.largest_free[node] = max(
                left if slot else 0 for left, slot in zip(milli.tolist(), slots.tolist(), strict=True)
            )
            self.whole_free[node] = milli.tolist().count(WHOLE_MILLI)
        self.changes.append(node)


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)
