"""How much of what is free typical pods could not use, for many nodes at once (section 3).

For a size ``d`` let ``up(d)`` be the sum of the free milli of GPUs that have at least ``d``, and ``cnt(d)`` their
number. A node's fragmentation is then what is free in all, less ``up(d)`` for every ``(d, k)`` with ``cnt(d) >= k``,
each times the probability of the typical pods of that size that accept the node's model and need no more CPU than it
has.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuloom.simulation.cluster import Ints
from gpuloom.simulation.pods import accepted_models
from gpuloom.simulation.typical import TypicalShape

Floats = NDArray[np.float64]


class FragmentationTable:
    """Typical pods in the form in which many nodes are asked about at once.

    models  of GPUs; nodes name theirs by an index into it
    """

    def __init__(self, typical: Mapping[TypicalShape, float], models: Sequence[str]) -> None:
        pairs = sorted({(shape.milli, shape.gpus) for shape in typical if shape.gpus})
        self._milli = np.array([milli for milli, _ in pairs], np.int64)
        self._gpus = np.array([gpus for _, gpus in pairs], np.int64)
        self._steps = np.array(sorted({shape.cpu_milli for shape in typical if shape.gpus}), np.int64)
        # By model, number of steps reached and pair: the probability of the pods that can be served.
        self._served = np.zeros((len(models), len(self._steps) + 1, len(pairs)))
        for shape, probability in typical.items():
            if shape.gpus:
                wanted = accepted_models(shape.spec)
                accepting = [not wanted or model in wanted for model in models]
                first = int(self._steps.searchsorted(shape.cpu_milli)) + 1
                self._served[np.array(accepting), first:, pairs.index((shape.milli, shape.gpus))] += probability

    def measure(self, model: Ints, cpu_free: Ints, milli_free: Ints) -> Floats:
        """Return the fragmentation of nodes in milli.

        model, cpu_free  by node; ``milli_free`` by node and GPU
        """
        enough = milli_free[:, :, None] >= self._milli
        up = (milli_free[:, :, None] * enough).sum(1)
        useful = np.where(enough.sum(1) >= self._gpus, up, 0) * self._serve(model, cpu_free)
        lost: Floats = milli_free.sum(1) - useful.sum(1)
        return lost

    def measure_with_share(self, model: Ints, cpu_free: Ints, milli_free: Ints, milli: int) -> Floats:
        """Return by node and GPU what the node's fragmentation would be if that GPU gave so much.

        cpu_free  by node, what would be left. Where a GPU has less than ``milli`` the answer means nothing
        """
        free = milli_free[:, :, None]
        enough = free >= self._milli
        left = free - milli
        still_enough = left >= self._milli
        held = free * enough
        # Taking from one GPU changes one term of the sums over all.
        up = held.sum(1)[:, None] + (left * still_enough - held)
        counts = enough.sum(1)[:, None] - enough + still_enough
        useful = np.where(counts >= self._gpus, up, 0) * self._serve(model, cpu_free)[:, None]
        lost: Floats = (milli_free.sum(1) - milli)[:, None] - useful.sum(2)
        return lost

    def _serve(self, model: Ints, cpu_free: Ints) -> Floats:
        """Return by node and pair how likely a typical pod is that the node could serve, as to model and CPU."""
        served: Floats = self._served[model, self._steps.searchsorted(cpu_free, side="right")]
        return served
