"""What follows from a node alone, whichever pod asks, kept until the node changes."""

from collections.abc import Iterable

import numpy as np

from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Ints, Points


class NodeFacts:
    """Columns worked out of those of nodes. Few nodes change at a time: plain numbers are fastest.

    free        thousandths of all cards of a node; ``free_milli`` of all nodes
    largest     of its emptiest card
    whole       how many of its cards are entirely free
    level       which classes of the reserve the node can serve; ``able_nodes``, a row a class, how many nodes can
    used        what typical pods can use of the node
    stranded    free cards that the node's free CPU cannot feed
    """

    def __init__(self, nodes: NodeColumns, useless: UselessShare, workload: Workload, reserve: Reserve) -> None:
        self._nodes = nodes
        self._useless = useless
        self._reserve = reserve
        self._cpu_per_milli = workload.cpu_per_milli
        count, asked = len(nodes), len(useless.asked)
        self.free: Ints = np.zeros(count, np.int64)
        self.free_milli = 0
        self.largest: Ints = np.zeros(count, np.int64)
        self.whole: Ints = np.zeros(count, np.int64)
        self.level: Ints = np.zeros(count, np.int64)
        self.able_nodes: Ints = np.zeros((reserve.classes, 1), np.int64)
        self._supplied: Points = np.zeros((count, 2 * asked))
        self.used: Points = np.zeros(count)
        self.stranded: Points = np.zeros(count)
        self.renew(range(count))

    def supply(self, rows: Ints) -> Supply:
        """Return what nodes have for typical pods."""
        return self._useless.split(self._supplied[rows])

    def renew(self, changed: Iterable[int]) -> None:
        """Work out anew what follows from some nodes."""
        for row in changed:
            self._renew(row)

    def _renew(self, row: int) -> None:
        nodes, useless, cpu = self._nodes, self._useless, self._nodes.free_cpu.item(row)
        cards = nodes.free_milli[row]
        each = cards.tolist()
        free, whole = sum(each), each.count(WHOLE)
        self.free_milli += free - self.free.item(row)
        self.free[row], self.largest[row], self.whole[row] = free, max(each), whole
        if self._reserve.classes:
            self._note_level(row, self._reserve.level(whole, cpu))
        self._supplied[row] = supplied = useless.supplied(cards)
        self.used[row] = useless.used(useless.split(supplied), useless.chances(nodes.model.item(row), cpu))
        self.stranded[row] = max(0.0, free - cpu / self._cpu_per_milli) if self._cpu_per_milli else 0.0

    def _note_level(self, row: int, level: int) -> None:
        before = self.level.item(row)
        if before != level:
            self.able_nodes += self._reserve.served(level)
            self.able_nodes -= self._reserve.served(before)
            self.level[row] = level

    def strand(self, free_milli: Ints, cpu: Ints | Points) -> Points:
        """Return ``D``: what is free on cards beyond what so much CPU feeds at the workload's average need."""
        if not self._cpu_per_milli:
            return np.zeros(len(free_milli))
        stranded = free_milli - cpu / self._cpu_per_milli
        return np.maximum(0.0, stranded, out=stranded)
