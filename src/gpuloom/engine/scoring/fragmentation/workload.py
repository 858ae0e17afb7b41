"""A workload: which shapes of pods come how often, and what policies ask about them together."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

WHOLE = 1000
"""Milli of one card."""
COVERAGE = 0.95
"""The part of a workload's pods that its typical pods cover at least."""
MOST_ASKED = 64
"""Typical pods ask for at most so many different things of cards: each is looked up for every state of a card."""


@dataclass(frozen=True, slots=True, order=True)
class Amounts:
    """What a share takes of a card, where memory and cores may differ.

    memory_mib      0 where memory is asked for by percentage
    memory_percent  of the card's memory; counts where ``memory_mib`` is 0
    cores           per cent
    """

    memory_mib: int
    memory_percent: int
    cores: int


class AskedOfCards(NamedTuple):
    """What pods ask of cards: so much of each of so many."""

    share_milli: int
    cards: int
    amounts: Amounts | None = None


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """What counts about a pod: pods of one shape are alike to a policy.

    cpu_milli    thousandths of a core
    cards        how many cards, 0 for a pod without cards
    share_milli  thousandths of each of them: below 1000 only for one card, 0 without cards
    models       card models that it accepts, joined by ``|`` as written; empty for all
    amounts      of memory and cores, None where a share is the same part of both
    """

    cpu_milli: int
    cards: int
    share_milli: int
    models: str = ""
    amounts: Amounts | None = None

    @property
    def demand_milli(self) -> int:
        """Thousandths of cards in all."""
        return self.cards * self.share_milli

    @property
    def asked(self) -> AskedOfCards:
        """What it asks of cards, whatever CPU it needs and models it accepts."""
        return AskedOfCards(self.share_milli, self.cards, self.amounts)

    @property
    def is_sharing(self) -> bool:
        """Whether it takes parts of cards, not whole ones or none."""
        return self.cards > 0 and self.share_milli < WHOLE

    @property
    def accepted(self) -> frozenset[str]:
        """The models that it names; empty for all. A model may be written twice."""
        return frozenset(part for piece in self.models.split("|") if (part := piece.strip()))


class Workload:
    """Pods counted by shape. Raises ValueError for a workload without a pod."""

    def __init__(self, counts: Mapping[WorkloadShape, int]) -> None:
        self.counts: Mapping[WorkloadShape, int] = MappingProxyType({shape: n for shape, n in counts.items() if n > 0})
        self.pods = sum(self.counts.values())
        if not self.pods:
            raise ValueError("the workload has no pods: policies that ask for typical pods need at least one")

    @cached_property
    def demand_milli(self) -> int:
        """What all pods together ask for, thousandths of cards."""
        return sum(shape.demand_milli * n for shape, n in self.counts.items())

    @cached_property
    def cpu_per_milli(self) -> float:
        """Milli-cores that pods with cards need for each thousandth of a card; 0 where none asks for cards."""
        cpu = sum(shape.cpu_milli * n for shape, n in self.counts.items() if shape.cards)
        return cpu / self.demand_milli if self.demand_milli else 0.0

    @cached_property
    def cpu_of_cardless(self) -> int:
        """Milli-cores of all pods without cards."""
        return sum(shape.cpu_milli * n for shape, n in self.counts.items() if not shape.cards)

    def expect_pods(self, free_milli: float) -> float:
        """Return how many pods are to be expected until they have asked for so much of cards."""
        return free_milli * self.pods / self.demand_milli if self.demand_milli else 0.0

    def chance_of(self, cards: int, least_cpu_milli: int) -> float:
        """Return how likely a pod asks for exactly so many cards and at least so much CPU."""
        asking = (n for shape, n in self.counts.items() if shape.cards == cards and shape.cpu_milli >= least_cpu_milli)
        return sum(asking) / self.pods

    def typical(self, coverage: float = COVERAGE) -> list[tuple[WorkloadShape, float]]:
        """Return the commonest shapes that cover so much of the pods, each with its probability among them.

        The commonest comes first, among equals the largest. They cover less where they would ask for more
        than MOST_ASKED different things of cards.
        """
        found: list[tuple[WorkloadShape, int]] = []
        asked: set[AskedOfCards] = set()
        covered = 0
        for shape, n in sorted(self.counts.items(), key=_commonest, reverse=True):
            asked.add(shape.asked)
            if covered >= coverage * self.pods or len(asked) > MOST_ASKED:
                break
            found.append((shape, n))
            covered += n
        return [(shape, n / covered) for shape, n in found]

    def sharing_sizes(self, least: int) -> dict[int, int]:
        """Return how many pods ask for a part of one card, by its thousandths, from the least size of interest."""
        sizes: dict[int, int] = {}
        for shape, n in self.counts.items():
            if shape.cards == 1 and least <= shape.share_milli < WHOLE:
                sizes[shape.share_milli] = sizes.get(shape.share_milli, 0) + n
        return dict(sorted(sizes.items()))

    def demand_by_models(self) -> dict[frozenset[str], float]:
        """Return for each set of models that pods name its part of all demand."""
        parts: dict[frozenset[str], float] = {}
        for shape, n in self.counts.items():
            if shape.models and shape.cards:
                named = shape.accepted
                parts[named] = parts.get(named, 0.0) + shape.demand_milli * n / self.demand_milli
        return parts


def _commonest(item: tuple[WorkloadShape, int]) -> tuple[int, int, int, int, str, tuple[Amounts, ...]]:
    shape, n = item
    amounts = () if shape.amounts is None else (shape.amounts,)
    return n, shape.cpu_milli, shape.share_milli, shape.cards, shape.models, amounts
