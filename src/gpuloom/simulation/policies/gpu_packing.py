"""GpuPacking: first GPUs that are shared already, then free ones of nodes in use, then idle nodes (section 4)."""

import numpy as np

from gpuloom.simulation.cluster import Choice, Ints, Mask
from gpuloom.simulation.pods import WHOLE_MILLI, TraceShape
from gpuloom.simulation.policies.policy import PolicySetup, pick_fullest


class GpuPacking:
    """Scores nodes by the GPUs that the pod would get there."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit."""
        nodes = fits.nonzero()[0]
        if not shape.gpus:
            return Choice(int(nodes[0]), ())
        node = int(nodes[self._score(shape, nodes).argmax()])
        return Choice(node, pick_fullest(self._cluster, node, shape))

    def _score(self, shape: TraceShape, nodes: Ints) -> Ints:
        cluster = self._cluster
        free, gpus = cluster.milli_free[nodes], cluster.gpus[nodes]
        # Of each node its fullest GPUs that suffice; the others count as emptier than any.
        chosen = np.sort(np.where(cluster.usable(shape.milli, nodes), free, 2 * WHOLE_MILLI), axis=1)[:, : shape.gpus]
        entirely_free = (chosen == WHOLE_MILLI).sum(1)
        opening = np.maximum(50 - entirely_free, 33)
        sharing = np.maximum(100 - chosen.sum(1) // 10 // 10, 50)
        idle = np.maximum(33 - gpus, gpus)
        in_use: Ints = np.where(entirely_free > 0, opening, sharing)
        scores: Ints = np.where(cluster.whole_free[nodes] == gpus, idle, in_use)
        return scores
