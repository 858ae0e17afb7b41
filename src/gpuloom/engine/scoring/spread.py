"""``spread``: the emptiest node and the emptiest card first (scheduler 5.3, 5.5)."""

from typing import Any

from gpuloom.engine.scoring.card_order import EMPTIEST, HIGHEST_NUMA
from gpuloom.engine.scoring.policy import NamedPolicy, NodesToRank


class Spread:
    """Ranks nodes by HAMi's score with its sign turned: the lowest score wins."""

    best = "emptiest"
    lowest_score_wins = True

    def rank(self, scores: Any, _nodes: NodesToRank) -> Any:
        """Return the scores with their sign turned."""
        return -scores

    def rank_in_common(self, scores: Any) -> Any:
        """Return the scores with their sign turned."""
        return -scores

    def show(self, ranks: Any) -> Any:
        """Return the scores as they were."""
        return -ranks


SPREAD = NamedPolicy(
    word="spread",
    node=Spread(),
    orders={"numa-first": (HIGHEST_NUMA, EMPTIEST), "score-first": (EMPTIEST, HIGHEST_NUMA)},
    key=EMPTIEST,
)
