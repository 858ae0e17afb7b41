"""What one container asks for, worked out for every row of a card table."""

from collections.abc import Iterator

import msgspec
import numpy as np

from gpuloom.model.cards import Flags, Ints

UNLIMITED = 2**62
"""More than any amount."""


class ScoreNeed(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What HAMi's device score adds to what is in use, which is not what the card must give (scheduler 5.2)."""

    slots: int
    cores: int
    memory_mib: Ints


class Headroom(msgspec.Struct, frozen=True, gc=False):
    """What a namespace's quota still allows."""

    memory_mib: int = UNLIMITED
    cores: int = UNLIMITED


UNBOUNDED = Headroom()


class Want(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What each card would have to give: the need columns of a request, aligned with a card table; or of one card.

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

    def one_by_one(self, rows: slice) -> Iterator["Want"]:
        """Give the want of each of some rows, with plain numbers in place of columns."""
        needs = self.memory_mib[rows].tolist()
        kinds, uuids = self.refused_kind[rows].tolist(), self.refused_uuid[rows].tolist()
        scores = self.score.memory_mib[rows].tolist()
        for need, kind, uuid, score in zip(needs, kinds, uuids, scores, strict=True):
            yield Want(
                self.cards,
                self.cores,
                need,
                kind,
                uuid,
                self.mutex,
                self.headroom,
                ScoreNeed(self.score.slots, self.score.cores, score),
            )


def percentage_of(total_mib: Ints, percentage: int) -> Ints:
    """Return so many per cent of each card's memory, in MiB, rounded down."""
    return np.asarray(total_mib * percentage // 100, np.int64)
