"""FGD, fragmentation gradient descent: where typical pods lose least of what they could use (section 3)."""

from dataclasses import dataclass

import numpy as np

from gpuloom.simulation.cluster import Choice, Ints, TraceCluster
from gpuloom.simulation.cluster import Mask as NodeMask
from gpuloom.simulation.fragmentation_table import Floats, FragmentationTable
from gpuloom.simulation.pods import PodShape
from gpuloom.simulation.policies.policy import PolicySetup
from gpuloom.simulation.typical import find_typical


@dataclass(slots=True)
class _Known:
    """What is remembered for a shape: by node its score and, for a sharing pod, the GPU of that score.

    mark  how many changes of the cluster are in it
    """

    scores: Ints
    cards: Ints
    mark: int


class FragmentationGradientDescent:
    """Places each pod where fragmentation grows least; rounding of scores and order of equals are as published."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster
        self._table = FragmentationTable(find_typical(setup.workload), setup.cluster.models)
        self._known: dict[PodShape, _Known] = {}

    def choose(self, shape: PodShape, fits: NodeMask) -> Choice:
        """Choose one of the nodes that fit."""
        known = self._recall(shape)
        node = int(np.where(fits, known.scores, -1).argmax())
        if shape.gpus == 1:
            return Choice(node, (int(known.cards[node]),))
        return Choice(node, tuple(self._cluster.usable(shape.milli, node).nonzero()[0][: shape.gpus].tolist()))

    def _recall(self, shape: PodShape) -> _Known:
        """Return the scores for a shape, worked out anew for the nodes that changed since the last time."""
        cluster, changes = self._cluster, self._cluster.changes
        known = self._known.get(shape)
        if known is None:
            nodes = np.arange(len(cluster))
            known = self._known[shape] = _Known(np.zeros_like(nodes), np.zeros_like(nodes), 0)
        else:
            nodes = np.array(sorted(set(changes[known.mark :])), np.int64)
        if len(nodes):
            known.scores[nodes], known.cards[nodes] = score_nodes(cluster, self._table, shape, nodes)
        known.mark = len(changes)
        return known


def score_nodes(cluster: TraceCluster, table: FragmentationTable, shape: PodShape, nodes: Ints) -> tuple[Ints, Ints]:
    """Return for nodes their score for a pod and the GPU that a pod of one GPU gets; -1 where no GPU suffices."""
    model, cpu, free = cluster.model[nodes], cluster.cpu_free[nodes], cluster.milli_free[nodes]
    usable = cluster.usable(shape.milli, nodes)
    before = table.measure(model, cpu, free)
    cpu_left = cpu - shape.cpu_milli
    if shape.gpus == 1:
        growth = table.measure_with_share(model, cpu_left, free, shape.milli) - before[:, None]
        scores = np.where(usable, score_growth(growth), -1)
        return scores.max(1), scores.argmax(1)
    taken = usable & (usable.cumsum(1) <= shape.gpus)
    growth = table.measure(model, cpu_left, free - shape.milli * taken) - before
    return score_growth(growth), np.zeros_like(nodes)


def score_growth(growth: Floats) -> Ints:
    """Return the score of a change of fragmentation in milli: an integer from 0 to 100, 50 for none."""
    return np.floor(100 / (1 + np.exp(np.round(growth, 6) / 1000))).astype(np.int64)
