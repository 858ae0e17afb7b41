"""All nodes that take a pod, graded: for a kube-scheduler that chooses among them itself (binding 10)."""

from collections.abc import Mapping

import numpy as np

from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.model.cards import Scores

BEST_GRADE = 10
"""The highest score that kube-scheduler takes from an extender."""


NodeOffer = Mapping[str, int]
"""The grade of each node that takes the pod, 0 to 10, in the order in which they were named."""


def make_offer(ranking: Ranking, chosen: str) -> NodeOffer:
    """Grade the nodes that fit: 10 for the chosen one alone, 9 for its equals, 0 for the worst, between them by score.

    Whoever follows the highest grade so gets the node whose cards are reserved.
    """
    names, ranks = ranking.as_named()
    offer = dict(zip(names, _grade(ranks), strict=True))
    if chosen in offer:
        offer[chosen] = BEST_GRADE
    return offer


def _grade(ranks: Scores) -> list[int]:
    found = ranks.astype(np.float64)
    lowest, span = found.min(initial=np.inf), np.ptp(found) if len(found) else 0.0
    if not (np.isfinite(span) and span > 0):
        return [BEST_GRADE - 1] * len(found)
    grades: list[int] = np.floor((BEST_GRADE - 1) * (found - lowest) / span).astype(np.int64).tolist()
    return grades
