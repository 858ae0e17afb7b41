"""What follows from a node alone, whichever pod asks, kept until the node changes."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Flags, Ints, Points


class NodeFacts:
    """Columns worked out of those of nodes.

    free        thousandths of all cards of a node
    largest     of its emptiest card
    whole       how many of its cards are entirely free
    able        a row a class of the reserve: whether the node can serve it; ``able_nodes`` how many can
    supply      what the node has for typical pods, ``used`` what these can use of it
    stranded    free cards that the node's free CPU cannot feed
    """

    def __init__(self, nodes: NodeColumns, useless: UselessShare, workload: Workload, reserve: Reserve) -> None:
        self._nodes = nodes
        self._useless = useless
        self._reserve = reserve
        self._cpu_per_milli = workload.cpu_per_milli
        count, asked = len(nodes), len(useless.asked)
        self.free: Ints = np.zeros(count, np.int64)
        self.largest: Ints = np.zeros(count, np.int64)
        self.whole: Ints = np.zeros(count, np.int64)
        self.able: Flags = np.zeros((reserve.classes, count), np.bool_)
        self.able_nodes: Ints = np.zeros((reserve.classes, 1), np.int64)
        self.supply = Supply(np.zeros((count, asked)), np.zeros((count, asked)))
        self.used: Points = np.zeros(count)
        self.stranded: Points = np.zeros(count)
        if count:
            self.renew(range(count))

    def renew(self, changed: Sequence[int]) -> None:
        """Work out anew what follows from some nodes, each named once."""
        rows, nodes = np.array(changed, np.int64), self._nodes
        cards, cpu = nodes.free_milli[rows], nodes.free_cpu[rows]
        self.free[rows] = free = cards.sum(axis=1)
        self.largest[rows] = cards.max(axis=1)
        self.whole[rows] = whole = (cards == WHOLE).sum(axis=1)
        if self._reserve.classes:
            able = self._reserve.able(whole, cpu)
            self.able_nodes += able.sum(axis=1, keepdims=True) - self.able[:, rows].sum(axis=1, keepdims=True)
            self.able[:, rows] = able
        supply = self._useless.supply(cards)
        self.supply.cards[rows], self.supply.milli[rows] = supply
        self.used[rows] = self._useless.used(supply, self._useless.chances(nodes.model[rows], cpu))
        self.stranded[rows] = self.strand(free, cpu)

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return ``D``: what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(len(free_milli))
        return np.maximum(0.0, free_milli - cpu / self._cpu_per_milli)
