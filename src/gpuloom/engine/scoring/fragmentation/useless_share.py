"""What a typical pod cannot use of the free share of a node: the measure ``F`` of fragmentation gradient descent."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, WorkloadShape
from gpuloom.model.cards import Ints, Points


class UselessShare:
    """Measures how much of what is free on nodes a typical pod can use, in thousandths of cards: the rest is useless.

    All that is free is useless to a pod without cards, to one that does not accept the model, that asks for more CPU
    than there is, or for more cards with enough room than there are; to others the cards without enough room are. All
    the typical pods that ask for equally many cards and as much of each differ by model and CPU alone, so their
    probability is a step function of the free CPU, looked up in a table.
    """

    def __init__(self, typical: Sequence[tuple[WorkloadShape, float]], models: Sequence[str]) -> None:
        with_cards = [(shape, chance) for shape, chance in typical if shape.cards]
        asked = sorted({(shape.share_milli, shape.cards) for shape, _ in with_cards})
        self._cards = np.array([cards for _, cards in asked], np.float64)
        self._steps = np.array(sorted({shape.cpu_milli for shape, _ in with_cards}), np.int64)
        self._chances = _tabulate(with_cards, asked, models, self._steps)
        # By the rest of a card: whether it serves each that asks, and how much it adds to what that one can use.
        rests = np.arange(WHOLE + 1)[:, None]
        self._serves = (rests >= np.array([share for share, _ in asked], np.int64)).astype(np.float64)
        self._usable = self._serves * rests

    def chances(self, model: Ints, cpu: Ints) -> Points:
        """Return a row a node: how likely pods, by what they ask of cards, accept it with so much free CPU."""
        return self._chances[model, np.searchsorted(self._steps, cpu, "right")]

    def used(self, free_milli: Ints, chances: Points) -> Points:
        """Return what a typical pod can use of nodes with so much free on each card; the rest of it is useless."""
        served, usable = self._serves[free_milli].sum(axis=1), self._usable[free_milli].sum(axis=1)
        return self._expect(served, usable, chances)

    def used_before_and_after(
        self, free_milli: Ints, share_milli: int, before: Points, after: Points
    ) -> tuple[Points, Points]:
        """Return what a typical pod can use of nodes, and by card once a share is taken from that card alone.

        ``before`` and ``after`` are the chances with the CPU that is free then. Cards without enough room get a number
        without meaning.
        """
        left = np.maximum(free_milli - share_milli, 0)
        serves, usable = self._serves[free_milli], self._usable[free_milli]
        all_serve, all_usable = serves.sum(axis=1), usable.sum(axis=1)
        served = all_serve[:, None] + (self._serves[left] - serves)
        used = all_usable[:, None] + (self._usable[left] - usable)
        return self._expect(all_serve, all_usable, before), self._expect(served, used, after[:, None, :])

    def _expect(self, served: Points, usable: Points, chances: Points) -> Points:
        """Return what a typical pod can use, given how many cards serve each that asks, and what is free on these."""
        return ((served >= self._cards) * usable * chances).sum(axis=-1)


def _tabulate(
    with_cards: Sequence[tuple[WorkloadShape, float]], asked: list[tuple[int, int]], models: Sequence[str], steps: Ints
) -> Points:
    """Return probabilities by model, by how many steps the free CPU reaches, and by what is asked of cards."""
    table = np.zeros((len(models), len(steps) + 1, len(asked)))
    for shape, chance in with_cards:
        rows = [at for at, model in enumerate(models) if not shape.accepted or model in shape.accepted]
        first = int(np.searchsorted(steps, shape.cpu_milli)) + 1
        table[rows, first:, asked.index((shape.share_milli, shape.cards))] += chance
    return table
