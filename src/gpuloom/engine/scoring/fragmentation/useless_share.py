"""What a typical pod cannot use of the free share of a node: the measure ``F`` of fragmentation gradient descent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, PodShape
from gpuloom.model.cards import Ints, Points


class UselessShare:
    """Measures how much of what is free on nodes a typical pod cannot use, in thousandths of cards.

    All that is free is useless to a pod without cards, to one that does not accept the model, that asks for more CPU than
    there is, or for more cards with enough room than there are; to others the cards without enough room are. All the
    typical pods that ask for equally many cards and as much of each differ by model and CPU alone, so their probability
    is a step function of the free CPU, looked up in a table.
    """

    def __init__(self, typical: Sequence[tuple[PodShape, float]], models: Sequence[str]) -> None:
        with_cards = [(shape, chance) for shape, chance in typical if shape.cards]
        asked = sorted({(shape.share_milli, shape.cards) for shape, _ in with_cards})
        self._cards = np.array([cards for _, cards in asked], np.float64)
        self._steps = np.array(sorted({shape.cpu_milli for shape, _ in with_cards}), np.int64)
        self._chances = _tabulate(with_cards, asked, models, self._steps)
        # By the rest of a card: whether it has enough room for each of those asked, and how much it adds to what they can use.
        rests = np.arange(WHOLE + 1)[:, None]
        self._serves = (rests >= np.array([share for share, _ in asked], np.int64)).astype(np.float64)
        self._usable = self._serves * rests

    def chances(self, model: Ints, cpu: Ints) -> Points:
        """Return a row a node: the probability of pods, by what they ask of cards, that accept it with so much free CPU."""
        return self._chances[model, np.searchsorted(self._steps, cpu, "right")]

    def of_nodes(self, free_milli: Ints, chances: Points) -> Points:
        """Return what is useless to a typical pod on nodes with so much free on each card."""
        served, usable = self._serves[free_milli].sum(axis=-2), self._usable[free_milli].sum(axis=-2)
        return free_milli.sum(axis=-1) - self._expected_use(served, usable, chances)

    def after_each(self, free_milli: Ints, share_milli: int, chances: Points) -> Points:
        """Return for each card what would be useless on its node once a share is taken from that card alone.

        ``chances`` are those after the placement. Cards without enough room get a number without meaning.
        """
        left = np.maximum(free_milli - share_milli, 0)
        serves, usable = self._serves[free_milli], self._usable[free_milli]
        served = serves.sum(axis=1, keepdims=True) - serves + self._serves[left]
        used = usable.sum(axis=1, keepdims=True) - usable + self._usable[left]
        total: Any = free_milli.sum(axis=1)[:, None] - share_milli
        return total - self._expected_use(served, used, chances[:, None, :])

    def _expected_use(self, served: Points, usable: Points, chances: Points) -> Points:
        """Return what a typical pod can use, given how many cards serve each that asks, and how much is free on these."""
        return ((served >= self._cards) * usable * chances).sum(axis=-1)


def _tabulate(
    with_cards: Sequence[tuple[PodShape, float]], asked: list[tuple[int, int]], models: Sequence[str], steps: Ints
) -> Points:
    """Return probabilities by model, by how many steps the free CPU reaches, and by what is asked of cards."""
    table = np.zeros((len(models), len(steps) + 1, len(asked)))
    for shape, chance in with_cards:
        rows = [at for at, model in enumerate(models) if not shape.accepted or model in shape.accepted]
        first = int(np.searchsorted(steps, shape.cpu_milli)) + 1
        table[rows, first:, asked.index((shape.share_milli, shape.cards))] += chance
    return table
