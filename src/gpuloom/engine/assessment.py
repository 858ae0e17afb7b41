"""What the cards of one vendor say to a pod, of all nodes: the vendor's part of a decision about several."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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
        for at, position in self._tried(positions):
            found[at] = self.trials.unplaced[position].turn if self.trials else self.turn
        return found

    def refuse(self, positions: Ints) -> list[Refusal]:
        """Say of nodes with cards why they do not take the pod."""
        found = self.verdicts.refuse(self.table, positions)
        for at, position in self._tried(positions):
            found[at] = self.trials.unplaced[position].refusal if self.trials else found[at]
        return found

    def _tried(self, positions: Ints) -> Iterator[tuple[int, int]]:
        """Give places and positions of those that were tried and refused."""
        if self.trials is not None:
            at = np.flatnonzero((self.trials.answers[positions] == REFUSES) & ~self.takes[positions])
            yield from zip(at.tolist(), positions[at].tolist(), strict=True)
