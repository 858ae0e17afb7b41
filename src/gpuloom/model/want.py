"""What one container asks for, worked out for every row of a card table."""

from dataclasses import dataclass, replace

import numpy as np

from gpuloom.model.cards import Flags, Ints


@dataclass(frozen=True, slots=True)
class Want:
    """What each card would have to give: the need columns of a request, aligned with a card table.

    ``refused_model`` and ``refused_uuid`` mark the rows that the pod's own annotations exclude. ``score_cores`` and
    ``score_memory_mib`` are what HAMi's device score counts, which is not what the card must give (scheduler 5.2).
    """

    cards: int
    cores: int
    memory_mib: Ints
    refused_model: Flags
    refused_uuid: Flags
    score_cores: int
    score_memory_mib: Ints

    def rows(self, which: slice | Ints | Flags) -> "Want":
        """Return the same want for fewer rows of its table."""
        return replace(
            self,
            memory_mib=self.memory_mib[which],
            refused_model=self.refused_model[which],
            refused_uuid=self.refused_uuid[which],
            score_memory_mib=self.score_memory_mib[which],
        )


def percentage_of(total_mib: Ints, percentage: int) -> Ints:
    """Return so many per cent of each card's memory, in MiB, rounded down."""
    return np.asarray(total_mib * percentage // 100, np.int64)
