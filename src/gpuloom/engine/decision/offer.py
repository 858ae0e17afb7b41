"""All nodes that take a pod, graded: for a kube-scheduler that chooses among them itself (binding 10)."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.model.cards import Scores

BEST_GRADE = 10
"""The highest score that kube-scheduler takes from an extender."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """Nodes in the order in which they were named, and the grade of each, 0 to 10."""

    nodes: Sequence[str]
    grades: Sequence[int]

    def without(self, nodes: Container[str]) -> "NodeOffer":
        """Return the same without some nodes."""
        kept = [(node, grade) for node, grade in zip(self.nodes, self.grades, strict=True) if node not in nodes]
        return NodeOffer([node for node, _ in kept], [grade for _, grade in kept])

    def grade(self, names: Iterable[str]) -> list[tuple[str, int]]:
        """Return the grade of each of these nodes, 0 for those that are not offered."""
        known = dict(zip(self.nodes, self.grades, strict=True))
        return [(name, known.get(name, 0)) for name in names]


def make_offer(ranking: Ranking, chosen: str) -> NodeOffer:
    """Grade the nodes that fit: 10 for the chosen one alone, 9 for its equals, 0 for the worst, between them by score.

    Whoever follows the highest grade so gets the node whose cards are reserved.
    """
    names, ranks = ranking.as_named()
    grades = _grade(ranks)
    if chosen in names:
        grades[names.index(chosen)] = BEST_GRADE
    return NodeOffer(names, grades)


def _grade(ranks: Scores) -> list[int]:
    found = ranks.astype(np.float64)
    lowest, span = found.min(initial=np.inf), np.ptp(found) if len(found) else 0.0
    if not (np.isfinite(span) and span > 0):
        return [BEST_GRADE - 1] * len(found)
    grades: list[int] = np.floor((BEST_GRADE - 1) * (found - lowest) / span).astype(np.int64).tolist()
    return grades
