"""``binpack``: the fullest node and the fullest card first, so that others stay empty (scheduler 5.3, 5.5)."""

from typing import Any

from gpuloom.engine.scoring.card_order import FULLEST, HIGHEST_NUMA, LOWEST_NUMA
from gpuloom.engine.scoring.policy import NamedPolicy, NodesToRank


class Binpack:
    """Ranks nodes by HAMi's score, which is higher the more of a node is in use."""

    best = "fullest"
    lowest_score_wins = False

    def rank(self, scores: Any, _nodes: NodesToRank) -> Any:
        """Return the scores."""
        return scores

    def rank_in_common(self, scores: Any) -> Any:
        """Return the scores."""
        return scores

    def show(self, ranks: Any) -> Any:
        """Return the ranks."""
        return ranks


BINPACK = NamedPolicy(
    word="binpack",
    node=Binpack(),
    orders={"numa-first": (LOWEST_NUMA, FULLEST), "score-first": (FULLEST, HIGHEST_NUMA)},
    key=FULLEST,
)
