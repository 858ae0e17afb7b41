"""Fitting nodes by score (scheduler 5.5)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.scores import Scores
from gpuloom.model.cards import Ints

UNFIT = np.float32(-np.inf)
"""The rank of a node that does not fit."""


class Ranking:
    """Nodes that fit, as they stood at the time of asking. Among equals the one named first is better.

    positions  of the candidates
    ranks      of the same nodes: their scores, the better the larger, UNFIT for those that do not fit
    spread     whether ranks are scores with the sign turned
    """

    def __init__(self, names: Sequence[str], positions: Ints, ranks: Scores, *, spread: bool) -> None:
        self._names = names
        self._positions = positions
        self._ranks = ranks
        self._sign = -1 if spread else 1

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

    def strike(self, position: int) -> None:
        """Take a node out: it does not fit after all."""
        self._ranks[self._positions == position] = UNFIT

    def worst_first(self) -> list[tuple[str, float]]:
        """Return names and scores, best last."""
        order = self._order()[::-1]
        scores = (self._sign * self._ranks[order] + 0.0).tolist()
        found = zip(self._positions[order].tolist(), scores, strict=True)
        return [(self._names[position], score) for position, score in found]

    def _order(self) -> Ints:
        order = np.argsort(-self._ranks, kind="stable")
        return order[: np.count_nonzero(self._ranks != UNFIT)]
