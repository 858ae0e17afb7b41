"""From a request to need columns: what each card would have to give (scheduler 6.3 rows 8 and 9, 5.2)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.demand import Selection
from gpuloom.engine.family import Family
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.table import NOBODY
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.nodecards import Facts
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.want import Headroom, ScoreNeed, Special, Want, percentage_of

MOST_CORES = 100
"""A container asks for at most one whole card's cores."""


@dataclass(frozen=True, slots=True)
class Particular:
    """What a vendor does otherwise when needs are worked out.

    facts_of  per card, which of ``facts`` its node says; None where all say the first
    number    gives the number that a policy has in the columns
    """

    family: Family
    facts: Sequence[Facts]
    facts_of: Ints | None
    number: Callable[[str], int]

    def apply(self, want: Want, cards: Cards, request: Request, selection: Selection) -> Want:
        """Return the want as the vendor has it."""
        share = self.family.profile.share
        count = len(cards)
        if share.memory_mib >= 0:
            want = replace(want, memory_mib=np.broadcast_to(np.int64(share.memory_mib), count))
        if share.cores >= 0:
            want = replace(want, cores=share.cores)
        if not self.family.is_hooked:
            return want
        return self._specialize(want, cards, request, selection)

    def _specialize(self, want: Want, cards: Cards, request: Request, selection: Selection) -> Want:
        """Ask the vendor's hook once for all cards of nodes that say the same."""
        memory_mib, total_cores = np.array(want.memory_mib), np.array(cards.total_cores)
        cores = np.full(len(cards), want.cores, np.int64)
        slots, wanted = np.ones(len(cards), np.int64), np.full(len(cards), request.cards, np.int64)
        unserved = np.zeros(len(cards), bool)
        alike: set[int] = set()
        work_out = self.family.work_out_need
        for number, rows in self._group(cards) if work_out else ():
            need = work_out(request, cards.rows(rows), self.facts[number], self.family.profile) if work_out else None
            if need is None:
                unserved[rows] = True
                continue
            memory_mib[rows], cores[rows], slots[rows] = need.memory_mib, need.cores, need.slots
            if need.total_cores is not None:
                total_cores[rows] = need.total_cores
            if need.cards is not None:
                wanted[rows] = need.cards
            alike.add(need.cores if isinstance(need.cores, int) else -1)
        one = next(iter(alike)) if len(alike) == 1 else -1
        special = Special(
            slots=slots,
            total_cores=total_cores,
            cards=wanted,
            unserved=unserved,
            app_class=selection.tenancy.app_class,
            policy=self.number(selection.tenancy.policy),
            whole=request.cores == MOST_CORES,
        )
        plain = want.cores if not alike else one if one >= 0 else cores
        return replace(want, memory_mib=memory_mib, cores=plain, special=special)

    def _group(self, cards: Cards) -> Iterator[tuple[int, Ints | slice]]:
        """Return the rows of nodes that say the same; rows that nobody has any more say nothing."""
        if self.facts_of is None:
            yield 0, slice(None)
            return
        owned = np.flatnonzero(cards.node != NOBODY)
        numbers = self.facts_of[owned]
        if len(owned) == len(cards) and (numbers == numbers[:1]).all():
            # The rule. Other rows are copied, which takes longer than all the rest.
            yield from ((number, slice(None)) for number in numbers[:1].tolist())
            return
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        yield from zip(numbers[order][starts].tolist(), np.split(owned[order], starts[1:]), strict=False)


def make_want(
    cards: Cards,
    uuids: Sequence[str],
    kinds: Sequence[tuple[str, str]],
    request: Request,
    selection: Selection,
    *,
    mutex: bool,
    headroom: Headroom,
    score_slots: ScoreSlots,
    divided: bool,
    particular: Particular | None = None,
) -> Want:
    """Work out what a request needs of cards with these ids; ``kinds`` are the table's.

    Amount wins over percentage in what a card must give, percentage over amount in the score. ``divided`` tells whether
    any card is divided in hardware; ``particular`` is what the vendor does otherwise.
    """
    total_mib = cards.total_memory_mib
    # One number seen as a column: shapes are remembered, and most ask for the same of every card.
    amount = np.broadcast_to(np.int64(request.memory_mib), len(total_mib))
    by_percentage = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
    share = percentage_of(total_mib, request.memory_percentage) if by_percentage else amount
    want = Want(
        cards=request.cards,
        cores=min(request.cores, MOST_CORES),
        memory_mib=amount if request.memory_mib else share,
        refused_kind=_refuse_kinds(cards, kinds, selection),
        refused_uuid=_refuse_uuids(uuids, selection),
        mutex=mutex,
        headroom=headroom,
        score=ScoreNeed(slots=request.cards if score_slots == "nums" else 1, cores=request.cores, memory_mib=share),
        divided=divided,
    )
    return want if particular is None else particular.apply(want, cards, request, selection)


def _refuse_kinds(cards: Cards, kinds: Sequence[tuple[str, str]], selection: Selection) -> Flags | None:
    refused = np.array([not selection.accepts_kind(model, mode) for model, mode in kinds], bool)
    return refused[cards.kind] if refused.any() else None


def _refuse_uuids(uuids: Sequence[str], selection: Selection) -> Flags | None:
    if not selection.names_uuids:
        return None
    return np.fromiter((not selection.accepts_uuid(uuid) for uuid in uuids), bool, len(uuids))
