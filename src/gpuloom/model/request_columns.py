"""What one container asks for, worked out for every row of a card table."""

from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec
import numpy as np

from gpuloom.model.cards import Flags, Ints, Number, Which

Mark = TypeVar("Mark", Flags, bool)
"""A column of marks, or the mark of one card."""
UNLIMITED = 2**62
"""More than any amount."""


class ScoreRequest(msgspec.Struct, Generic[Number], frozen=True, gc=False, eq=False, kw_only=True):
    """What HAMi's device score adds to what is in use, which is not what the card must give (scheduler 5.2)."""

    slots: int
    cores: int
    memory_mib: Number


class Headroom(msgspec.Struct, frozen=True, gc=False):
    """What a namespace's quota still allows."""

    memory_mib: int = UNLIMITED
    cores: int = UNLIMITED

    def shared_by(self, cards: int) -> "Headroom":
        """Return what each of some cards may take where all of them take the same."""
        return Headroom(self.memory_mib // cards, self.cores // cards)


UNBOUNDED = Headroom()


class VendorColumns(msgspec.Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """What only some vendors' requests have; columns like those of :class:`RequestColumns`.

    slots        how many slots a share takes
    total_cores  how many cores each card is taken to have
    cards        how many cards are wanted of the row's node
    unsupported  whether the row's node cannot serve the request at all
    app_class    the pod's class, ``policy`` the number of its policy for sharing cores
    whole        whether all cores of a card are wanted
    """

    slots: Ints
    total_cores: Ints
    cards: Ints
    unsupported: Flags
    app_class: str = ""
    policy: int = 0
    whole: bool = False

    def rows(self, which: Which) -> "VendorColumns":
        """Return the same for fewer rows."""
        return VendorColumns(
            slots=self.slots[which],
            total_cores=self.total_cores[which],
            cards=self.cards[which],
            unsupported=self.unsupported[which],
            app_class=self.app_class,
            policy=self.policy,
            whole=self.whole,
        )


class CardRequest(msgspec.Struct, Generic[Number, Mark], frozen=True, gc=False, eq=False, kw_only=True):
    """What cards would have to give: columns for many (:class:`RequestColumns`), or numbers for one.

    ``refused_kind`` and ``refused_uuid`` mark cards that the pod's own annotations exclude, None for no card; ``mutex``
    says that only cards which nobody uses will do. ``other_than_earlier_card`` marks cards other than those of the
    pod's earlier containers, where the vendor wants them to be the same. ``vendor_columns`` is None for most vendors;
    with it ``cores`` may be a column. ``divided`` says whether any of the cards may be divided in hardware.
    """

    cards: int
    cores: Number | int
    memory_mib: Number
    refused_kind: Mark | None
    refused_uuid: Mark | None
    mutex: bool
    headroom: Headroom
    score: ScoreRequest[Number]
    other_than_earlier_card: Mark | None = None
    vendor_columns: VendorColumns | None = None
    divided: bool = True


class RequestNumbers(CardRequest[int, bool], frozen=True, gc=False, eq=False, kw_only=True):
    """What one card would have to give."""


class RequestColumns(CardRequest[Ints, Flags], frozen=True, gc=False, eq=False, kw_only=True):
    """What each card would have to give: the columns of a request, aligned with a card table."""

    def rows(self, which: Which) -> "RequestColumns":
        """Return the same columns for fewer rows of the table."""
        score = self.score
        return RequestColumns(
            cards=self.cards,
            cores=self.cores if isinstance(self.cores, int) else self.cores[which],
            memory_mib=self.memory_mib[which],
            refused_kind=None if self.refused_kind is None else self.refused_kind[which],
            refused_uuid=None if self.refused_uuid is None else self.refused_uuid[which],
            mutex=self.mutex,
            headroom=self.headroom,
            score=ScoreRequest(slots=score.slots, cores=score.cores, memory_mib=score.memory_mib[which]),
            other_than_earlier_card=None
            if self.other_than_earlier_card is None
            else self.other_than_earlier_card[which],
            vendor_columns=None if self.vendor_columns is None else self.vendor_columns.rows(which),
            divided=self.divided,
        )

    def cores_at(self, rows: Ints) -> Ints:
        """Return the cores that some rows' cards must give; nobody may change them."""
        return repeat_number(self.cores, len(rows)) if isinstance(self.cores, int) else self.cores[rows]

    def cards_at(self, row: int) -> int:
        """Return how many cards are wanted of one row's node."""
        return self.cards if self.vendor_columns is None else int(self.vendor_columns.cards[row])

    def slots_at(self, rows: Ints) -> Ints:
        """Return the slots that shares of some rows' cards take; nobody may change them."""
        return repeat_number(1, len(rows)) if self.vendor_columns is None else self.vendor_columns.slots[rows]

    def one_by_one(self, rows: slice) -> Iterator[RequestNumbers]:
        """Give what is required of each of some rows, where no vendor has columns of its own."""
        needs, scores = self.memory_mib[rows].tolist(), self.score.memory_mib[rows].tolist()
        nobody = [None] * len(needs)
        kinds = nobody if self.refused_kind is None else self.refused_kind[rows].tolist()
        uuids = nobody if self.refused_uuid is None else self.refused_uuid[rows].tolist()
        cores = self.cores_at(np.arange(rows.start, rows.stop)).tolist()
        made: dict[Hashable, RequestNumbers] = {}
        for key in zip(needs, cores, kinds, uuids, scores, strict=True):
            # Most of a node's cards are alike.
            if key not in made:
                need, core, kind, uuid, score = key
                made[key] = RequestNumbers(
                    cards=self.cards,
                    cores=core,
                    memory_mib=need,
                    refused_kind=kind,
                    refused_uuid=uuid,
                    mutex=self.mutex,
                    headroom=self.headroom,
                    score=ScoreRequest(slots=self.score.slots, cores=self.score.cores, memory_mib=score),
                    divided=self.divided,
                )
            yield made[key]


@lru_cache(256)
def repeat_number(number: int, count: int) -> Ints:
    """Return one number seen as a column of so many rows, which nobody can change."""
    # What np.broadcast_to does, in a tenth of its time.
    return np.ndarray(count, np.int64, np.int64(number).tobytes(), strides=(0,))


class HookRequest(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What each card of a node would have to give, as a hook works it out: a column, or one number for all.

    slots        how many of the card's slots a share takes
    total_cores  how many cores each card is taken to have, None for as registered
    cards        how many cards are wanted, None for as asked
    """

    memory_mib: Ints | int
    cores: Ints | int
    slots: int = 1
    total_cores: int | None = None
    cards: int | None = None
