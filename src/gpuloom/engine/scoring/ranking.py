"""Fitting nodes by score (scheduler 5.5)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.model.cards import Flags, Ints, Scores

UNFIT = np.float32(-np.inf)
"""The rank of a node that does not fit."""


class Ranking:
    """Nodes that fit, as they stood at the time of asking. Among equals the one named first is better.

    positions   of the candidates that have cards
    ranks       of the same nodes: their scores, the better the larger, UNFIT for those that do not fit
    candidates  how many nodes there were to choose from, those without cards included
    policy      by which they are ranked
    """

    def __init__(
        self, names: Sequence[str], positions: Ints, ranks: Scores, *, candidates: int, policy: NodePolicy
    ) -> None:
        self.candidates = candidates
        self._names = names
        self._positions = positions
        self._ranks = ranks
        self._policy = policy

    def __len__(self) -> int:
        return int(np.count_nonzero(self._ranks != UNFIT))

    def best(self) -> int | None:
        """Return the position of the best node, None when none fits."""
        if not len(self._ranks):
            return None
        at = int(self._ranks.argmax())
        return None if self._ranks[at] == UNFIT else int(self._positions[at])

    def all(self) -> list[int]:
        """Return the positions of the nodes that fit, in the order in which they were named."""
        fitting: list[int] = self._positions[self._ranks != UNFIT].tolist()
        return fitting

    def exclude(self, positions: int | Sequence[int]) -> None:
        """Take a node out, or several: they do not fit after all."""
        self._ranks[np.isin(self._positions, positions)] = UNFIT

    def only(self, fitting: Flags) -> "Ranking":
        """Return the same nodes without those that do not fit after all, which flags by position tell."""
        ranks = np.where(fitting[self._positions], self._ranks, UNFIT)
        return Ranking(self._names, self._positions, ranks, candidates=self.candidates, policy=self._policy)

    def as_named(self) -> tuple[list[str], Scores]:
        """Return names and ranks of the nodes that fit, in the order in which they were named."""
        places = np.flatnonzero(self._ranks != UNFIT)
        return [self._names[position] for position in self._positions[places].tolist()], self._ranks[places]

    def worst_first(self, most: int | None = None) -> list[tuple[str, float]]:
        """Return names and scores, best last; at most so many, the worst."""
        return self._tell(self._order(most)[::-1])

    def best_first(self, most: int) -> list[tuple[str, float]]:
        """Return names and scores, best first; at most so many."""
        return self._tell(self._order(None)[:most])

    def _tell(self, order: Ints) -> list[tuple[str, float]]:
        scores = (self._policy.show(self._ranks[order]) + 0.0).tolist()
        found = zip(self._positions[order].tolist(), scores, strict=True)
        return [(self._names[position], score) for position, score in found]

    def _order(self, most: int | None) -> Ints:
        """Return places among the candidates, best first, of the ``most`` worst that fit."""
        places = np.flatnonzero(self._ranks != UNFIT)
        if most is not None and most < len(places):
            # Those that are worse or equal to the last one asked for: few are left to be sorted.
            limit = np.partition(self._ranks[places], most - 1)[most - 1]
            places = places[self._ranks[places] <= limit]
        order = places[np.argsort(-self._ranks[places], kind="stable")]
        return order if most is None else order[max(len(order) - most, 0) :]
