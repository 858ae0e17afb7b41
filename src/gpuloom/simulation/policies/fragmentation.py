"""``fragmentation``, gpuloom's own: where a pod takes least of what GPUs are worth to the pods to come."""

from functools import lru_cache

import numpy as np

from gpuloom.engine.scoring.fragmentation.chooser import FragmentationChooser
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import ALL_PODS, PODS_WITH_CARDS
from gpuloom.simulation.cluster import Choice, Ints, Mask, TraceCluster
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.policy import PolicySetup
from gpuloom.simulation.workloads import count_workload, forget_memory

_ARRIVALS_A_REFRESH = 20
_MOST_SHAPES = 4096


class Fragmentation:
    """Hands the simulated cluster to the engine's chooser, and what changed there since it was asked before."""

    def __init__(self, setup: PolicySetup) -> None:
        cluster = setup.cluster
        self._cluster = cluster
        self._nodes = NodeColumns(
            free_cpu=cluster.cpu_free,
            capacity_cpu=cluster.cpu_capacity,
            free_milli=np.where(cluster.slots_free > 0, cluster.milli_free, 0),
            cards=cluster.gpus,
            model=cluster.model,
            models=cluster.models,
        )
        is_extender = setup.mode == "B"
        self._chooser = FragmentationChooser(
            self._nodes,
            count_workload(setup.workload),
            PODS_WITH_CARDS if is_extender else ALL_PODS,
            _order_by_spare_cpu(cluster) if is_extender else None,
        )
        self._known_changes = len(cluster.changes)
        self._refreshes = 0
        self._forget_memory = lru_cache(_MOST_SHAPES)(forget_memory)

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit; ValueError if there is none."""
        cluster = self._cluster
        for node in cluster.changes[self._known_changes :]:
            np.multiply(cluster.milli_free[node], cluster.slots_free[node] > 0, out=self._nodes.free_milli[node])
            self._chooser.note_change(node)
        self._known_changes = len(cluster.changes)
        if cluster.arrivals >= self._refreshes * _ARRIVALS_A_REFRESH:
            self._chooser.refresh_market()
            self._refreshes = cluster.arrivals // _ARRIVALS_A_REFRESH + 1
        chosen = self._chooser.choose(self._forget_memory(shape), fits)
        if chosen is None:
            raise ValueError(f"{shape} fits none of the nodes that it was said to fit")
        node, cards = chosen
        return Choice(node, tuple(cards))


def _order_by_spare_cpu(cluster: TraceCluster) -> Ints:
    """Return the nodes with the fewest cores for each GPU first, then by name."""
    return np.argsort(cluster.cpu_capacity / np.maximum(cluster.gpus, 1), kind="stable")
