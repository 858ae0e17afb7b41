"""``spread``: the emptiest node and the emptiest card first (scheduler 5.3, 5.5)."""

from gpuloom.engine.scoring.card_order import EMPTIEST, HIGHEST_NUMA
from gpuloom.engine.scoring.policy import NamedPolicy, NodePolicy

SPREAD = NamedPolicy(
    word="spread",
    node=NodePolicy(best="emptiest", sign=-1, shown=-1.0),
    orders={"numa-first": (HIGHEST_NUMA, EMPTIEST), "score-first": (EMPTIEST, HIGHEST_NUMA)},
    key=EMPTIEST,
)
