"""BestFit: the node on which least CPU and GPU is left afterwards (section 4)."""

import numpy as np

from gpuloom.simulation.cluster import Choice, Mask
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.policy import PolicySetup, pick_fullest

FULL_CPU, FULL_GPU = 128_000, 8_000
"""Milli that amounts are measured by: those of the largest node of the published cluster."""


class BestFit:
    """Scores nodes by what would be left."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit."""
        cluster, nodes = self._cluster, fits.nonzero()[0]
        cpu = (cluster.cpu_free[nodes] - shape.cpu_milli) / FULL_CPU
        gpu = (cluster.total_free[nodes] - shape.demand) / FULL_GPU
        scores = np.floor(100 * (1 - 0.5 * cpu - 0.5 * gpu)).astype(np.int64)
        lowest, highest = scores.min(), scores.max()
        scaled = (scores - lowest) * 100 // max(highest - lowest, 1)
        node = int(nodes[scaled.argmax()])
        return Choice(node, pick_fullest(cluster, node, shape))
