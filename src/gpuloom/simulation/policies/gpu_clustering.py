"""GpuClustering: pods of one class stay together (section 4)."""

from collections import defaultdict

import numpy as np

from gpuloom.simulation.cluster import Choice, Mask
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.best_fit import FULL_GPU
from gpuloom.simulation.policies.policy import PolicySetup, pick_fullest

_THIS_ONLY, _THIS_TOO, _NONE, _OTHERS_ONLY = 75, 50, 25, 0


class GpuClustering:
    """Scores nodes by the classes of the pods that they hold: sharing, or the number of whole GPUs."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster
        self._classes = np.zeros(len(self._cluster), np.int64)
        self._holding = defaultdict[int, "np.ndarray[tuple[int], np.dtype[np.bool_]]"](
            lambda: np.zeros(len(self._cluster), bool)
        )

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit, and note what it holds from now on."""
        cluster, nodes = self._cluster, fits.nonzero()[0]
        if not shape.gpus:
            return Choice(int(nodes[0]), ())
        holding = self._holding[0 if shape.is_sharing else shape.gpus]
        here, classes = holding[nodes], self._classes[nodes]
        bonus = np.where(
            here, np.where(classes == 1, _THIS_ONLY, _THIS_TOO), np.where(classes == 0, _NONE, _OTHERS_ONLY)
        )
        scores = 25 * (FULL_GPU - cluster.total_free[nodes]) // FULL_GPU + bonus
        node = int(nodes[scores.argmax()])
        if not holding[node]:
            holding[node] = True
            self._classes[node] += 1
        return Choice(node, pick_fullest(cluster, node, shape))
