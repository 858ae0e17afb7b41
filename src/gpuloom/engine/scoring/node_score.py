"""HAMi's score of a node (scheduler 5.4).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

_SCALE = 10.0


def score_node(used: Sequence[Any], total: Sequence[Any]) -> Any:
    """Score a node as full as it is now, without the request (scheduler 5.4).

    used, total: slots, cores and memory, each summed over all cards of the node; columns for many nodes.
    """
    # Where a sum is zero there is no score, so there it may be divided by anything.
    slots, cores, memory = (part / (whole + (whole == 0)) for part, whole in zip(used, total, strict=True))
    return np.float32(_SCALE * (slots + cores + memory) * ((total[0] != 0) & (total[1] != 0) & (total[2] != 0)))
