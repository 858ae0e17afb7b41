"""What it costs to break a node that could still take a pod of many whole cards."""

from typing import Any

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Flags, Ints, Points

LEAST_CARDS = 8
"""Pods of fewer cards find nodes often enough."""
_MOST = 10.0
"""So many expected pods a node count at most."""


class Reserve:
    """The classes of pods for which whole nodes are worth keeping: a class is a number of cards and an amount of CPU.

    A node is able to serve a class while it has that many wholly free cards and that much free CPU.
    """

    def __init__(self, workload: Workload, weight: float) -> None:
        classes = sorted({(shape.cards, shape.cpu_milli) for shape in workload.counts if shape.cards >= LEAST_CARDS})
        self._cards = np.array([cards for cards, _ in classes], np.int64)[:, None]
        self._cpu = np.array([cpu for _, cpu in classes], np.int64)[:, None]
        self._chances = np.array([workload.chance_of(cards, cpu) for cards, cpu in classes])[:, None]
        self._weight = weight
        self._workload = workload

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self._cards)

    def able(self, whole_cards: Ints | int, cpu: Ints | int) -> Flags:
        """Return a row a class, a column a node: whether the node can serve it with so much that is free."""
        return (whole_cards >= self._cards) & (cpu >= self._cpu)

    def prices(self, able_nodes: Ints, free_milli: float) -> Points:
        """Return a row a class: what it charges a placement that makes a node unable to serve it, thousandths of cards.

        ``able_nodes``, a row a class, counts the nodes that can serve it now; ``free_milli`` is free on all cards.
        """
        expected: Any = self._chances * self._workload.expect_pods(free_milli)
        return self._weight * np.minimum(_MOST, expected / np.maximum(able_nodes, 1)) * self._cards * WHOLE
