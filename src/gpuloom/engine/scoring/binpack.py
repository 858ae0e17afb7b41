"""``binpack``: the fullest node and the fullest card first, so that others stay empty (scheduler 5.3, 5.5)."""

from gpuloom.engine.scoring.card_order import FULLEST, HIGHEST_NUMA, LOWEST_NUMA
from gpuloom.engine.scoring.policy import NamedPolicy, NodePolicy

BINPACK = NamedPolicy(
    word="binpack",
    # HAMi's score is higher the more of a node is in use.
    node=NodePolicy(best="fullest", sign=1, shown=1.0),
    orders={"numa-first": (LOWEST_NUMA, FULLEST), "score-first": (FULLEST, HIGHEST_NUMA)},
    key=FULLEST,
)
