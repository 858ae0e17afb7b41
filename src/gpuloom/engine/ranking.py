"""Fitting nodes by score (scheduler 5.5)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.policies import SPREAD
from gpuloom.engine.scores import Scores
from gpuloom.model.cards import Ints


class Ranking:
    """Nodes that fit and their scores at the time of asking. Among equals the one named first is better."""

    def __init__(self, names: Sequence[str], positions: Ints, scores: Scores, policy: str) -> None:
        self._names = names
        self._positions = positions
        self._scores = scores[positions]
        self._rank = -self._scores if policy == SPREAD else self._scores
        self._struck: set[int] = set()

    def __len__(self) -> int:
        return len(self._positions) - len(self._struck)

    def best(self) -> int:
        """Return the position of the best node."""
        return int(self._positions[np.argmax(self._rank)])

    def best_first(self) -> list[int]:
        """Return the positions of all nodes, best first."""
        order: list[int] = self._positions[np.argsort(-self._rank, kind="stable")].tolist()
        return order

    def strike(self, position: int) -> None:
        """Take a node out: it does not fit after all."""
        self._struck.add(position)

    def worst_first(self) -> list[tuple[str, float]]:
        """Return names and scores, best last."""
        order = np.argsort(-self._rank, kind="stable")[::-1]
        found = zip(self._positions[order].tolist(), self._scores[order].tolist(), strict=True)
        return [(self._names[position], score) for position, score in found if position not in self._struck]
