"""``first-fit``: the first node that fits, in the order of the call, and the first card that fits.

For clusters whose nodes are named in the order in which they are to be filled, and to compare other policies with.
"""

from gpuloom.engine.scoring.card_order import LOWEST_NUMA, SortKey
from gpuloom.engine.scoring.policy import NamedPolicy, NodePolicy

LOWEST_INDEX = SortKey("lowest index first", lambda cards, _required, _weights: cards.index)

FIRST_FIT = NamedPolicy(
    word="first-fit",
    # Among equals the one named first wins.
    node=NodePolicy(best="first", sign=0, shown=1.0),
    orders={"numa-first": (LOWEST_NUMA, LOWEST_INDEX), "score-first": (LOWEST_INDEX,)},
    key=LOWEST_INDEX,
)
