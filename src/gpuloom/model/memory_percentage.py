"""From a percentage of a card's memory to MiB."""

import numpy as np

from gpuloom.model.cards import Ints


def percentage_to_mib(total_mib: Ints, percentage: int) -> Ints:
    """Return so many per cent of each card's memory, in MiB, rounded down."""
    return np.asarray(total_mib * percentage // 100, np.int64)
