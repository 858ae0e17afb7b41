"""What it costs to break a node that could take a pod of many whole cards: the reserve of placement quality 6.1."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload
from gpuloom.model.cards import Flags, Ints, Points

LEAST_CARDS = 8
"""Pods of fewer cards find nodes often enough."""
MOST_CLASSES = 16
"""So many classes are kept, those of most pods: published workloads have 5. The table of losses takes 0.7 MB then."""
NO_LOSS = 0
"""The number of the loss of a node that can serve all that it could before."""
_MOST = 10.0
"""So many expected pods a node count at most."""
_UNKNOWN = -1


class LargePodNodes:
    """The classes of pods for which whole nodes are worth keeping: a class is a number of cards and an amount of CPU.

    A node is able to serve a class while it has that many wholly free cards and that much free CPU. Which classes it
    can serve is its *level*. A *loss* is a set of classes that a node cannot serve any more; each that came about has
    a number.
    """

    def __init__(self, workload: Workload, weight: float) -> None:
        classes = _find_classes(workload)
        self._cards = np.array([cards for cards, _ in classes], np.int64)[:, None]
        self._cpu = np.array([cpu for _, cpu in classes], np.int64)[:, None]
        self._cards_of = [cards for cards, _ in classes]
        self._chances = [workload.chance_of(cards, cpu) for cards, cpu in classes]
        self._weight = weight
        self._workload = workload
        self._card_steps, self._cpu_steps = np.unique(self._cards), np.unique(self._cpu)
        self._steps_of_cards: list[int] = self._card_steps.tolist()
        self._steps_of_cpu: list[int] = self._cpu_steps.tolist()
        # By level, what it takes: nothing is less than the first step.
        cards, cpu = np.append(-1, self._card_steps), np.append(-1, self._cpu_steps)
        able = self.able(np.repeat(cards, len(cpu)), np.tile(cpu, len(cards)))
        self._able: Flags = np.ascontiguousarray(able.T)
        self._is_able: Flags = np.logical_or.reduce(self._able, axis=1)
        self._losses: Ints = np.full((len(self._able), len(self._able)), _UNKNOWN)
        self._lost: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): NO_LOSS}

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self._cards)

    def able(self, whole_cards: Ints | int, cpu: Ints | int) -> Flags:
        """Return a row a class, a column a node: whether the node can serve it with so much that is free."""
        return (whole_cards >= self._cards) & (cpu >= self._cpu)

    def levels(self, whole_cards: Ints, cpu: Ints) -> Ints:
        """Return the levels of nodes with so much that is free."""
        level = self._card_steps.searchsorted(whole_cards, "right") * (len(self._cpu_steps) + 1)
        level += self._cpu_steps.searchsorted(cpu, "right")
        return level

    def level(self, whole_cards: int, cpu: int) -> int:
        """Return the level of one node."""
        at = bisect_right(self._steps_of_cards, whole_cards), bisect_right(self._steps_of_cpu, cpu)
        return at[0] * (len(self._steps_of_cpu) + 1) + at[1]

    def served(self, level: int) -> Flags:
        """Return a row a class: whether a node of this level can serve it."""
        served: Flags = self._able[level][:, None]
        return served

    def is_any_able(self, levels: Ints) -> bool:
        """Whether any node of these levels can serve any class."""
        return bool(np.count_nonzero(self._is_able[levels]))

    def is_one_able(self, level: int) -> bool:
        """Whether a node of this level can serve any class."""
        return bool(self._is_able[level])

    def loss(self, before: int, after: int) -> int:
        """Return the number of what one node loses that goes from one level to another."""
        found: int = self._losses.item(before, after)
        return found if found != _UNKNOWN else self.losses(np.array([before]), np.array([after])).item()

    def losses(self, before: Ints, after: Ints) -> Ints:
        """Return the numbers of what nodes lose that go from one level to another."""
        found: Ints = self._losses[before, after]
        if found.min(initial=NO_LOSS) == _UNKNOWN:
            for pair in set(zip(before.tolist(), after.tolist(), strict=True)):
                lost = np.flatnonzero(self._able[pair[0]] & ~self._able[pair[1]])
                self._losses[pair] = self._number(tuple(lost.tolist()))
            found = self._losses[before, after]
        return found

    def _number(self, lost: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(lost, len(self._lost))
        if number == len(self._lost):
            self._lost.append(lost)
        return number

    def prices(self, able_nodes: Ints, free_milli: float) -> list[float]:
        """Return by class what it charges a placement that makes a node unable to serve it, thousandths of cards.

        ``able_nodes``, a row a class, counts the nodes that can serve it now; ``free_milli`` is free on all cards.
        """
        expected = self._workload.expect_pods(free_milli)
        # Few classes: plain numbers are fastest.
        return [
            self._weight * min(_MOST, chance * expected / max(able, 1)) * cards * WHOLE
            for cards, chance, able in zip(self._cards_of, self._chances, able_nodes[:, 0].tolist(), strict=True)
        ]

    def charge(self, prices: Sequence[float], loss: int) -> float:
        """Return what a loss is charged: the price of the dearest class that is lost."""
        return max([prices[at] for at in self._lost[loss]], default=0.0)

    def charges(self, prices: Sequence[float]) -> Points:
        """Return what each loss is charged, by its number."""
        return np.array([self.charge(prices, loss) for loss in range(len(self._lost))])


def _find_classes(workload: Workload) -> list[tuple[int, int]]:
    """Return cards and CPU of the classes of most pods, the smaller first among equals; the smallest comes first."""
    pods = Counter[tuple[int, int]]()
    for shape, n in workload.counts.items():
        if shape.cards >= LEAST_CARDS:
            pods[shape.cards, shape.cpu_milli] += n
    commonest = sorted(pods, key=lambda of: (-pods[of], of))
    return sorted(commonest[:MOST_CLASSES])
