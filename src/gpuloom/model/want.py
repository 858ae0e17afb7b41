"""What one container asks for, worked out for every row of a card table."""

from dataclasses import dataclass

import numpy as np

from gpuloom.model.cards import Flags, Ints

UNLIMITED = 2**62
"""More than any amount."""


@dataclass(frozen=True, slots=True)
class ScoreNeed:
    """What HAMi's device score adds to what is in use, which is not what the card must give (scheduler 5.2)."""

    slots: int
    cores: int
    memory_mib: Ints


@dataclass(frozen=True, slots=True)
class Headroom:
    """What a namespace's quota still allows."""

    memory_mib: int = UNLIMITED
    cores: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class Want:
    """What each card would have to give: the need columns of a request, aligned with a card table.

    ``refused_kind`` and ``refused_uuid`` mark the rows that the pod's own annotations exclude, ``mutex`` says that only
    cards which nobody uses will do.
    """

    cards: int
    cores: int
    memory_mib: Ints
    refused_kind: Flags
    refused_uuid: Flags
    mutex: bool
    headroom: Headroom
    score: ScoreNeed

    def rows(self, which: slice | Ints | Flags) -> "Want":
        """Return the same want for fewer rows of its table."""
        return Want(
            self.cards,
            self.cores,
            self.memory_mib[which],
            self.refused_kind[which],
            self.refused_uuid[which],
            self.mutex,
            self.headroom,
            ScoreNeed(self.score.slots, self.score.cores, self.score.memory_mib[which]),
        )


def percentage_of(total_mib: Ints, percentage: int) -> Ints:
    """Return so many per cent of each card's memory, in MiB, rounded down."""
    return np.asarray(total_mib * percentage // 100, np.int64)
