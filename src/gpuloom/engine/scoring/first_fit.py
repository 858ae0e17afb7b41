"""``first-fit``: the first node that fits, in the order of the call, and the first card that fits.

For clusters whose nodes are named in the order in which they are to be filled, and to compare other policies with.
"""

from typing import Any

import numpy as np

from gpuloom.engine.scoring.card_order import LOWEST_NUMA, SortKey
from gpuloom.engine.scoring.policy import NamedPolicy, NodesToRank


class FirstFit:
    """Ranks all nodes alike: among equals the one named first wins."""

    best = "first"
    lowest_score_wins = False

    def rank(self, scores: Any, _nodes: NodesToRank) -> Any:
        """Return 0 for every node."""
        return scores * np.float32(0)

    def rank_in_common(self, scores: Any) -> Any:
        """Return 0 for every node."""
        return scores * 0.0

    def show(self, ranks: Any) -> Any:
        """Return the ranks: scores do not count."""
        return ranks


LOWEST_INDEX = SortKey("lowest index first", lambda cards, _required, _weights: cards.index)

FIRST_FIT = NamedPolicy(
    word="first-fit",
    node=FirstFit(),
    orders={"numa-first": (LOWEST_NUMA, LOWEST_INDEX), "score-first": (LOWEST_INDEX,)},
    key=LOWEST_INDEX,
)
