"""DotProd: the node whose free amounts are least like what the pod asks for (section 4)."""

import numpy as np

from gpuloom.simulation.cluster import Choice, Mask
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.best_fit import FULL_CPU, FULL_GPU
from gpuloom.simulation.policies.policy import PolicySetup, pick_fullest


class DotProduct:
    """Scores nodes by the product of demand and rest."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit."""
        cluster, nodes = self._cluster, fits.nonzero()[0]
        cpu = (cluster.cpu_free[nodes] / FULL_CPU) * (shape.cpu_milli / FULL_CPU)
        gpu = (cluster.total_free[nodes] / FULL_GPU) * (shape.demand / FULL_GPU)
        scores = np.floor(100 * (1 - 0.5 * (cpu + gpu)))
        node = int(nodes[scores.argmax()])
        return Choice(node, pick_fullest(cluster, node, shape))
