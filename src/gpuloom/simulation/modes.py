"""Who places the pods without GPUs (section 1): the policy, kube-scheduler, or nobody because there are none."""

import random
from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from gpuloom.simulation.cluster import Choice, Ints, Mask, TraceCluster
from gpuloom.simulation.pods import TracePod, TraceShape

Mode = Literal["A", "B", "C"]
"""A: the policy under test places every pod. B: kube-scheduler's rule places CPU-only pods. C: there are none."""


def select_pods(pods: Sequence[TracePod], mode: Mode) -> tuple[TracePod, ...]:
    """Return the pods of a list that a mode is about."""
    return tuple(pod for pod in pods if mode != "C" or not pod.shape.is_cpu_only)


_PREFERRED = 2 * 100
"""What a preferred node affinity adds to a node's score: its weight among kube-scheduler's scores times the most."""


class DefaultScheduler:
    """Places CPU-only pods by the default scoring of kube-scheduler: least allocated and balanced, ties at random.

    avoided  names of nodes that the pods prefer not to run on
    """

    def __init__(self, cluster: TraceCluster, rng: random.Random, avoided: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._random = rng
        self._preference = np.array([0 if name in avoided else _PREFERRED for name in cluster.names], np.int64)

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit; never called without one."""
        nodes = fits.nonzero()[0]
        scores = score_default(self._cluster, shape, nodes) + self._preference[nodes]
        best = nodes[scores == scores.max()]
        return Choice(int(best[self._random.randrange(len(best))]), ())


def score_default(cluster: TraceCluster, shape: TraceShape, nodes: Any) -> Ints:
    """Score nodes as kube-scheduler does, in its integer arithmetic; each node has CPU and host memory."""
    cpu, memory = cluster.cpu_capacity[nodes], cluster.memory_capacity[nodes]
    cpu_left, memory_left = cluster.cpu_free[nodes] - shape.cpu_milli, cluster.memory_free[nodes] - shape.memory_mib
    least = (100 * cpu_left // cpu + 100 * memory_left // memory) // 2
    apart = np.abs((cpu - cpu_left) / cpu - (memory - memory_left) / memory)
    balanced = np.floor(100 * (1 - apart / 2)).astype(np.int64)
    scores: Ints = least + balanced
    return scores
