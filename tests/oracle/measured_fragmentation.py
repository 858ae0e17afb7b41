"""``fragmentation`` where memory and cores differ, in plain Python: cards and pods by amounts, no models, no reserve.

Whole cards of one pod, other models and pods without cards are in ``fragmentation.py``; here is what a card with two
amounts is worth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from oracle.fragmentation import Weights


class AmountPod(NamedTuple):
    cpu: int
    memory_mib: int
    cores: int
    cards: int


class AmountCard(NamedTuple):
    total_mib: int
    free_mib: int
    free_cores: int
    pods: int

    @property
    def rest(self) -> int:
        """Thousandths of the card that are free: the smaller of memory and cores, to whole per cent."""
        return min((self.free_mib * 100 + self.total_mib // 2) // self.total_mib, self.free_cores) * 10

    def serves(self, pod: AmountPod) -> bool:
        if self.free_mib < pod.memory_mib or self.pods >= 10:
            return False
        if pod.cores == 100:
            return self.pods == 0
        return self.free_cores >= max(pod.cores, 1)

    def take(self, pod: AmountPod) -> "AmountCard":
        left = self.free_mib - pod.memory_mib, self.free_cores - pod.cores
        taken = AmountCard(self.total_mib, *left, self.pods + 1)
        return taken if taken.pods < 10 else AmountCard(self.total_mib, 0, 0, 10)


@dataclass
class AmountNode:
    capacity: int
    cpu: int
    cards: list[AmountCard]


def share_of(pod: AmountPod, usual_mib: int) -> int:
    return min(max((pod.memory_mib * 100 + usual_mib // 2) // usual_mib, pod.cores, 1) * 10, 1000)


class AmountCosts:
    """What pods cost on nodes; ``typical`` are pods with their chances, ``need`` CPU for each thousandth of a card."""

    def __init__(
        self,
        typical: Sequence[tuple[AmountPod, float]],
        need: float,
        waste: Callable[[int], float],
        weights: Weights,
        usual_mib: int,
    ) -> None:
        self.typical, self.need, self.waste, self.weights = typical, need, waste, weights
        self.usual_mib = usual_mib

    def useless(self, node: AmountNode) -> float:
        total, usable = sum(card.rest for card in node.cards), 0.0
        for pod, chance in self.typical:
            serving = [card.rest for card in node.cards if card.serves(pod)]
            if node.cpu >= pod.cpu and len(serving) >= pod.cards:
                usable += chance * sum(serving)
        return total - usable

    def stranded(self, free: float, cpu: int) -> float:
        return max(0.0, free - cpu / self.need)

    def on_node(self, node: AmountNode) -> float:
        free = sum(card.rest for card in node.cards)
        cost = self.weights.useless * self.useless(node) + self.weights.stranded * self.stranded(free, node.cpu)
        return cost + sum(self.waste(card.rest) for card in node.cards)

    def of(self, pod: AmountPod, node: AmountNode) -> tuple[float, tuple[int, ...]] | None:
        fitting = [at for at, card in enumerate(node.cards) if card.serves(pod)]
        if node.cpu < pod.cpu or len(fitting) < pod.cards:
            return None
        return min((self.of_cards(pod, node, cards), cards) for cards in combinations(fitting, pod.cards))

    def of_cards(self, pod: AmountPod, node: AmountNode, cards: Sequence[int]) -> float:
        after = AmountNode(node.capacity, node.cpu - pod.cpu, list(node.cards))
        for at in cards:
            after.cards[at] = after.cards[at].take(pod)
        free, demand = sum(card.rest for card in node.cards), share_of(pod, self.usual_mib) * pod.cards
        # No pods without cards are expected: nobody else will take CPU.
        later = self.stranded(free - demand, after.cpu) - self.stranded(free, node.cpu)
        spare = min(1.0, node.capacity / len(node.cards) / 52_000) ** 2
        cost = self.on_node(after) - self.on_node(node) + self.weights.stranded_later * later
        return round(cost + self.weights.spare_cpu * spare * demand, 6)
