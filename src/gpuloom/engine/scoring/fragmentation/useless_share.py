"""What a typical pod cannot use of the free share of a node: the measure ``F`` of fragmentation gradient descent."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, AskedOfCards, WorkloadShape
from gpuloom.model.cards import Ints, Points

_MOST_SHARES = 64
"""For so many sizes of shares it is remembered what they change: about 200 KB each."""


class Supply(NamedTuple):
    """What nodes have for pods, by what these ask of cards: cards with enough room, and what is free there.

    cards  how many
    milli  thousandths of cards
    """

    cards: Points
    milli: Points


class Barred(NamedTuple):
    """How likely a typical pod cannot use a node, whatever is free on its cards, by node and cause.

    no_cards      it asks for none
    other_models  it does not accept the node's
    no_cpu        it asks for more CPU than is free
    """

    no_cards: Points
    other_models: Points
    no_cpu: Points


class UselessShare:
    """Measures how much of what is free on nodes a typical pod can use, in thousandths of cards: the rest is useless.

    All that is free is useless to a pod without cards, to one that does not accept the model, that asks for more CPU
    than there is, or for more cards with enough room than there are; to others the cards without enough room are. All
    the typical pods that ask for equally many cards and as much of each differ by model and CPU alone, so their
    probability is a step function of the free CPU, looked up in a table.

    asked             what these pods ask of cards; columns are in this order
    lines             how likely they accept a node, a line for each model and step of free CPU that there may be
    supplied_by_rest  by the rest of a card: whether it serves each that asks, then how much it adds to what that one
                      can use
    changes           returns by the rest of a card what changes in that once a share is taken from it
    """

    def __init__(self, typical: Sequence[tuple[WorkloadShape, float]], models: Sequence[str]) -> None:
        with_cards = [(shape, chance) for shape, chance in typical if shape.cards]
        asked = self.asked = list_asked(typical)
        self._cards = np.array([one.cards for one in asked], np.float64)
        self._steps = np.array(sorted({shape.cpu_milli for shape, _ in with_cards}), np.int64)
        self._steps_of_cpu: list[int] = self._steps.tolist()
        self._lines_a_model = len(self._steps) + 1
        chances = _tabulate(with_cards, asked, models, self._steps)
        self.lines: Points = chances.reshape(len(models) * self._lines_a_model, len(asked))
        self._with_cards = sum(chance for _, chance in with_cards)
        rests = np.arange(WHOLE + 1)[:, None]
        serves = (rests >= np.array([one.share_milli for one in asked], np.int64)).astype(np.float64)
        self.supplied_by_rest: Points = np.concatenate([serves, serves * rests], axis=1)
        self.changes = lru_cache(_MOST_SHARES)(self._change)

    def chances(self, model: Ints | int, cpu: Ints | int) -> Points:
        """Return a row a node: how likely pods, by what they ask of cards, accept it with so much free CPU.

        One row for one node.
        """
        chances: Points = self.lines[self.where(model, cpu)]
        return chances

    def barred(self, model: Ints, cpu: Ints) -> Barred:
        """Return how likely pods cannot use nodes of these models with so much free CPU, and why."""
        accepted = self.lines[(model + 1) * self._lines_a_model - 1].sum(axis=1)
        fed = self.chances(model, cpu).sum(axis=1)
        return Barred(np.full(len(fed), 1 - self._with_cards), self._with_cards - accepted, accepted - fed)

    def where(self, model: Ints | int, cpu: Ints | int) -> Ints:
        """Return which of the lines each node has."""
        return model * self._lines_a_model + self._steps.searchsorted(cpu, "right")

    def line(self, model: int, cpu: int) -> int:
        """Return which of the lines one node has."""
        return model * self._lines_a_model + bisect_right(self._steps_of_cpu, cpu)

    def supply(self, free_milli: Ints) -> Supply:
        """Return what cards with so much free supply, a row a node."""
        return self.split(np.add.reduce(self.supplied_by_rest[free_milli], axis=-2))

    def supply_after_each(self, supply: Supply, free_milli: Ints, share_milli: int) -> Supply:
        """Return for each card what its node would supply once a share is taken from that card alone.

        A row a node, a column a card. Cards without enough room get numbers without meaning.
        """
        more = self.split(self.changes(share_milli)[free_milli])
        return Supply(supply.cards[:, None] + more.cards, supply.milli[:, None] + more.milli)

    def _change(self, share_milli: int) -> Points:
        left = np.maximum(np.arange(WHOLE + 1) - share_milli, 0)
        return self.supplied_by_rest[left] - self.supplied_by_rest

    def split(self, supplied: Points) -> Supply:
        """Return the parts of rows of :meth:`supplied`."""
        half = len(self.asked)
        return Supply(supplied[..., :half], supplied[..., half:])

    def used(self, supply: Supply, chances: Points) -> Points:
        """Return what a typical pod can use of what is supplied."""
        usable = (supply.cards >= self._cards) * supply.milli
        usable *= chances
        found: Points = np.add.reduce(usable, axis=-1)
        return found


def list_asked(typical: Sequence[tuple[WorkloadShape, float]]) -> list[AskedOfCards]:
    """Return what typical pods with cards ask of cards, each once, in a fixed order."""
    asked = {shape.asked for shape, _ in typical if shape.cards}
    return sorted(asked, key=lambda one: (one.share_milli, one.cards, () if one.amounts is None else (one.amounts,)))


def _tabulate(
    with_cards: Sequence[tuple[WorkloadShape, float]], asked: list[AskedOfCards], models: Sequence[str], steps: Ints
) -> Points:
    """Return probabilities by model, by how many steps the free CPU reaches, and by what is asked of cards."""
    table = np.zeros((len(models), len(steps) + 1, len(asked)))
    for shape, chance in with_cards:
        rows = [at for at, model in enumerate(models) if not shape.accepted or model in shape.accepted]
        first = int(np.searchsorted(steps, shape.cpu_milli)) + 1
        table[rows, first:, asked.index(shape.asked)] += chance
    return table
