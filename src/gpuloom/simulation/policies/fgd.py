"""FGD, fragmentation gradient descent: where typical pods lose least of what they could use (section 3)."""

from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.model.cards import Points
from gpuloom.simulation.cluster import Choice, Ints, Mask, TraceCluster
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.policy import PolicySetup
from gpuloom.simulation.workloads import count_workload


@dataclass(slots=True)
class _Known:
    """What is remembered for pods that ask alike: by node its score and, for a sharing pod, the GPU of that score.

    mark  how many changes of the cluster are in it
    """

    scores: Ints
    cards: Ints
    mark: int


class FragmentationGradientDescent:
    """Places each pod where fragmentation grows least; rounding of scores and order of equals are as published."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster = setup.cluster
        self._useless = UselessShare(count_workload(setup.workload).typical(), setup.cluster.models)
        # Neither host memory nor accepted models have a part in the score.
        self._known: dict[tuple[int, int, int], _Known] = {}

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit."""
        known = self._recall(shape)
        node = int(np.where(fits, known.scores, -1).argmax())
        if shape.gpus == 1:
            return Choice(node, (int(known.cards[node]),))
        return Choice(node, tuple(self._cluster.usable(shape.milli, node).nonzero()[0][: shape.gpus].tolist()))

    def _recall(self, shape: TraceShape) -> _Known:
        """Return the scores for a pod, worked out anew for the nodes that changed since the last time."""
        cluster, changes = self._cluster, self._cluster.changes
        key = shape.cpu_milli, shape.gpus, shape.milli
        known = self._known.get(key)
        if known is None:
            nodes = np.arange(len(cluster))
            known = self._known[key] = _Known(np.zeros_like(nodes), np.zeros_like(nodes), 0)
        else:
            nodes = np.array(sorted(set(changes[known.mark :])), np.int64)
        if len(nodes):
            known.scores[nodes], known.cards[nodes] = score_nodes(cluster, self._useless, shape, nodes)
        known.mark = len(changes)
        return known


def score_nodes(cluster: TraceCluster, useless: UselessShare, shape: TraceShape, nodes: Ints) -> tuple[Ints, Ints]:
    """Return for nodes their score for a pod and the GPU that a pod of one GPU gets; -1 where no GPU suffices."""
    model, cpu, free = cluster.model[nodes], cluster.cpu_free[nodes], cluster.milli_free[nodes]
    usable = cluster.usable(shape.milli, nodes)
    supply, chances_left = useless.supply(free), useless.chances(model, cpu - shape.cpu_milli)
    used = useless.used(supply, useless.chances(model, cpu))
    # What is free shrinks by the pod's demand; of that, what typical pods could use shrinks by less or more.
    if shape.gpus == 1:
        used_after = useless.used(useless.supply_after_each(supply, free, shape.milli), chances_left[:, None])
        growth = used[:, None] - used_after - shape.milli
        scores = np.where(usable, score_growth(growth), -1)
        return scores.max(1), scores.argmax(1)
    taken = usable & (usable.cumsum(1) <= shape.gpus)
    used_after = useless.used(useless.supply(free - shape.milli * taken), chances_left)
    return score_growth(used - used_after - shape.demand), np.zeros_like(nodes)


def score_growth(growth: Points) -> Ints:
    """Return the score of a change of fragmentation in milli: an integer from 0 to 100, 50 for none."""
    return np.floor(100 / (1 + np.exp(np.round(growth, 6) / 1000))).astype(np.int64)
