"""What the cards of one vendor say to a pod, of all nodes: the vendor's part of a decision about several."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.placement import Unplaced
from gpuloom.engine.scores import Scores
from gpuloom.engine.table import CardTable
from gpuloom.engine.trials import REFUSES, Trials
from gpuloom.engine.verdicts import Verdicts
from gpuloom.model.cards import Flags, Ints
from gpuloom.model.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Assessment:
    """What one vendor's cards say; columns by position in its table.

    takes   whether the pod fits as far as these cards go
    scores  the node's score with what the vendor adds, where it takes the pod
    turn    the first container that asks for these cards, in order of placing from 1
    trials  None where the verdicts on single cards told all
    """

    table: CardTable
    verdicts: Verdicts
    takes: Flags
    scores: Scores
    turn: int
    trials: Trials | None = None

    def turns(self, positions: Ints) -> Ints:
        """Return of nodes that do not take the pod with which container that shows; without cards, with the first."""
        found = np.full(len(positions), self.turn)
        for at, unplaced in self._tried(positions):
            found[at] = unplaced.turn
        return found

    def refuse(self, positions: Ints) -> list[Refusal]:
        """Say of nodes with cards why they do not take the pod."""
        told = {at: unplaced.refusal for at, unplaced in self._tried(positions)}
        others = [at for at in range(len(positions)) if at not in told]
        told.update(zip(others, self.verdicts.refuse(self.table, positions[others]), strict=True))
        return [told[at] for at in range(len(positions))]

    def _tried(self, positions: Ints) -> Iterator[tuple[int, Unplaced]]:
        """Give the places of those that were tried and refused, and what they said."""
        if self.trials is not None:
            at = np.flatnonzero((self.trials.answers[positions] == REFUSES) & ~self.takes[positions])
            yield from zip(at.tolist(), map(self.trials.unplaced.__getitem__, positions[at].tolist()), strict=True)
