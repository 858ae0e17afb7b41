"""What the cards of one vendor say to a pod, of all nodes: the vendor's part of a decision about several."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.placement.placement_cache import REFUSES, PlacementCache
from gpuloom.engine.placement.placer import Unplaced
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import Flags, Ints, Scores
from gpuloom.model.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Assessment:
    """What one vendor's cards say; columns by position in its table.

    takes   whether the pod fits as far as these cards go
    ranks   the node's rank with what the vendor adds, where it takes the pod
    turn    the first container that asks for these cards, in order of placing from 1
    placements  None where the rules on single cards decide
    """

    table: CardTable
    results: FilterResults
    takes: Flags
    ranks: Scores
    turn: int
    placements: PlacementCache | None = None

    def turns(self, positions: Ints) -> Ints:
        """Return of nodes that do not take the pod with which container that shows; without cards, with the first."""
        found = np.full(len(positions), self.turn)
        for at, unplaced in self._tried(positions):
            found[at] = unplaced.turn
        return found

    def refuse(self, positions: Ints) -> list[Refusal]:
        """Say of nodes with cards why they do not take the pod."""
        refusals = {at: unplaced.refusal for at, unplaced in self._tried(positions)}
        others = [at for at in range(len(positions)) if at not in refusals]
        refusals.update(zip(others, self.results.refuse(self.table, positions[others]), strict=True))
        return [refusals[at] for at in range(len(positions))]

    def _tried(self, positions: Ints) -> Iterator[tuple[int, Unplaced]]:
        """Give the places of the nodes on which the pod was placed in vain, and why."""
        if self.placements is not None:
            at = np.flatnonzero((self.placements.answers[positions] == REFUSES) & ~self.takes[positions])
            yield from zip(at.tolist(), map(self.placements.unplaced.__getitem__, positions[at].tolist()), strict=True)
