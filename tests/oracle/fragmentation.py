"""``fragmentation`` in plain Python: the cost of one placement, term by term, worked out anew each time.

No arrays, no memory, no tables of steps. A pod is its CPU, its cards, the share of each and the models that it accepts
(empty for all); what a card's rest wastes is given.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple


class Pod(NamedTuple):
    cpu: int
    share: int
    cards: int
    models: str = ""

    def accepts(self, model: str) -> bool:
        return not self.models or not self.cards or model in self.models.split("|")


@dataclass
class Node:
    model: str
    capacity: int
    cpu: int
    free: list[int]


@dataclass(frozen=True)
class Weights:
    useless: float
    stranded: float
    stranded_later: float
    scarcity: float
    spare_cpu: float
    large_pods: float


def typical_of(pods: Sequence[Pod]) -> list[tuple[Pod, float]]:
    """The commonest shapes until they cover 95 %, the larger first among equally common ones."""
    found: list[tuple[int, Pod]] = []
    for count, shape in sorted(((count, shape) for shape, count in Counter(pods).items()), reverse=True):
        if sum(n for n, _ in found) >= 0.95 * len(pods):
            break
        found.append((count, shape))
    return [(shape, count / sum(n for n, _ in found)) for count, shape in found]


def useless_to(pod: Pod, node: Node) -> int:
    enough = [rest for rest in node.free if rest >= pod.share]
    if not pod.cards or not pod.accepts(node.model) or node.cpu < pod.cpu or len(enough) < pod.cards:
        return sum(node.free)
    return sum(node.free) - sum(enough)


def useless(typical: Sequence[tuple[Pod, float]], node: Node) -> float:
    return sum(chance * useless_to(pod, node) for pod, chance in typical)


class Costs:
    """What placements cost on nodes as they are now."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], waste: Sequence[float], weights: Weights) -> None:
        self.nodes, self.pods, self.waste, self.weights = nodes, pods, waste, weights
        self.typical = typical_of(pods)
        self.demand = sum(pod.share * pod.cards for pod in pods)
        self.need = sum(pod.cpu for pod in pods if pod.cards) / self.demand
        self.classes = {(pod.cards, pod.cpu) for pod in pods if pod.cards >= 8}
        self.learn_market()

    def all_free(self) -> int:
        return sum(sum(node.free) for node in self.nodes)

    def learn_market(self) -> None:
        self.scarcity = {model: self.work_out_scarcity(model) for model in {node.model for node in self.nodes}}
        expected = sum(pod.cpu for pod in self.pods if not pod.cards) * self.all_free() / self.demand
        # To the nearest twentieth: halfway between two of them either is near.
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            given = sum(max(0.0, node.cpu - middle * node.capacity) for node in self.nodes)
            low, high = (middle, high) if given > expected else (low, middle)
        self.level = round(low * 20) / 20 if expected else 1.0

    def work_out_scarcity(self, model: str) -> float:
        wanted = 0.0
        for named in {frozenset(pod.models.split("|")) for pod in self.pods if pod.models and pod.cards}:
            if model in named:
                demand = sum(
                    pod.share * pod.cards
                    for pod in self.pods
                    if pod.models and pod.cards and frozenset(pod.models.split("|")) == named
                )
                free = sum(sum(node.free) for node in self.nodes if node.model in named)
                wanted += demand / self.demand * self.all_free() / max(free, 1000)
        return min(1.0, float(wanted**1.5))

    def is_able(self, node: Node, cards: int, cpu: int) -> bool:
        return node.cpu >= cpu and node.free.count(1000) >= cards

    def reserve_price(self, cards: int, cpu: int) -> float:
        chance = sum(pod.cards == cards and pod.cpu >= cpu for pod in self.pods) / len(self.pods)
        expected = chance * self.all_free() / (self.demand / len(self.pods))
        able = max(1, sum(self.is_able(node, cards, cpu) for node in self.nodes))
        return self.weights.large_pods * min(10, expected / able) * cards * 1000

    def on_node(self, node: Node) -> float:
        free, weights = sum(node.free), self.weights
        later = min(node.cpu, self.level * node.capacity)
        return (
            weights.useless * useless(self.typical, node)
            + sum(self.waste[rest] for rest in node.free)
            + weights.stranded * max(0.0, free - node.cpu / self.need)
            + weights.stranded_later * max(0.0, free - later / self.need)
        )

    def of(self, pod: Pod, node: Node) -> tuple[float, tuple[int, ...]] | None:
        """The least cost and its cards, None where the pod does not fit."""
        fitting = [at for at, rest in enumerate(node.free) if pod.cards and rest >= pod.share]
        if node.cpu < pod.cpu or not pod.accepts(node.model) or len(fitting) < pod.cards:
            return None
        return min((self.of_cards(pod, node, cards), cards) for cards in combinations(fitting, pod.cards))

    def of_cards(self, pod: Pod, node: Node, cards: Sequence[int]) -> float:
        """The cost of these very cards."""
        after = Node(node.model, node.capacity, node.cpu - pod.cpu, list(node.free))
        for card in cards:
            after.free[card] -= pod.share
        lost = [
            self.reserve_price(*of) for of in self.classes if self.is_able(node, *of) and not self.is_able(after, *of)
        ]
        spare = min(1.0, node.capacity / len(node.free) / 52_000) ** 2
        price = self.weights.scarcity * self.scarcity[node.model] + self.weights.spare_cpu * spare
        cost = self.on_node(after) - self.on_node(node) + price * pod.share * pod.cards + max(lost, default=0.0)
        return round(cost, 6)


def step_of(cost: float) -> int:
    """Costs of one step are equal."""
    return math.floor(cost / 20 + 0.5)
