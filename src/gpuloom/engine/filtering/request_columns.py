"""From a request to columns: what each card would have to give (scheduler 6.3 rows 8 and 9, 5.2)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.request.demand import CardSelector
from gpuloom.engine.request.options import ScoreSlots
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import WHOLE_CARD, Cards, Flags, Ints
from gpuloom.model.nodecards import Facts
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import Headroom, RequestColumns, ScoreRequest, VendorColumns, percentage_of


@dataclass(frozen=True, slots=True)
class VendorAdjustments:
    """What a vendor does otherwise when needs are worked out.

    facts_of  per card, which of ``facts`` its node says; None where all say the first
    number    gives the number that a policy has in the columns
    """

    compiled: CompiledProfile
    facts: Sequence[Facts]
    facts_of: Ints | None
    number: Callable[[str], int]

    def apply(self, required: RequestColumns, cards: Cards, request: Request, selector: CardSelector) -> RequestColumns:
        """Return the columns as the vendor has them."""
        share = self.compiled.profile.share
        count = len(cards)
        if share.memory_mib >= 0:
            required = replace(required, memory_mib=np.broadcast_to(np.int64(share.memory_mib), count))
        if share.cores >= 0:
            required = replace(required, cores=share.cores)
        if not self.compiled.is_hooked:
            return required
        return self._add_vendor_columns(required, cards, request, selector)

    def _add_vendor_columns(
        self, required: RequestColumns, cards: Cards, request: Request, selector: CardSelector
    ) -> RequestColumns:
        """Ask the vendor's hook once for all cards of nodes that say the same."""
        memory_mib, total_cores = np.array(required.memory_mib), np.array(cards.total_cores)
        cores = np.full(len(cards), required.cores, np.int64)
        slots, wanted = np.ones(len(cards), np.int64), np.full(len(cards), request.cards, np.int64)
        unserved = np.zeros(len(cards), bool)
        alike: set[int] = set()
        work_out = self.compiled.request_hook
        for number, rows in self._group(cards) if work_out else ():
            need = work_out(request, cards.rows(rows), self.facts[number], self.compiled.profile) if work_out else None
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
        vendor_columns = VendorColumns(
            slots=slots,
            total_cores=total_cores,
            cards=wanted,
            unserved=unserved,
            app_class=selector.tenancy.app_class,
            policy=self.number(selector.tenancy.policy),
            whole=request.cores == WHOLE_CARD,
        )
        plain = required.cores if not alike else one if one >= 0 else cores
        return replace(required, memory_mib=memory_mib, cores=plain, vendor_columns=vendor_columns)

    def _group(self, cards: Cards) -> Iterator[tuple[int, Ints | slice]]:
        """Return the rows of nodes that say the same; rows that nobody has any more say nothing."""
        if self.facts_of is None:
            yield 0, slice(None)
            return
        owned = np.flatnonzero(cards.node != NO_NODE)
        numbers = self.facts_of[owned]
        if len(owned) == len(cards) and (numbers == numbers[:1]).all():
            # The rule. Other rows are copied, which takes longer than all the rest.
            yield from ((number, slice(None)) for number in numbers[:1].tolist())
            return
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        yield from zip(numbers[order][starts].tolist(), np.split(owned[order], starts[1:]), strict=False)


def adjustments_of(compiled: CompiledProfile, table: CardTable) -> VendorAdjustments | None:
    """Return what the vendor does otherwise, None for nothing."""
    if not compiled.adjusts_requests:
        return None
    return VendorAdjustments(compiled, table.facts, table.facts_of[table.cards.node], table.number)


def make_request_columns(
    cards: Cards,
    uuids: Sequence[str],
    kinds: Sequence[tuple[str, str]],
    request: Request,
    selector: CardSelector,
    *,
    mutex: bool,
    headroom: Headroom,
    score_slots: ScoreSlots,
    divided: bool,
    adjustments: VendorAdjustments | None = None,
) -> RequestColumns:
    """Work out what a request needs of cards with these ids; ``kinds`` are the table's.

    Amount wins over percentage in what a card must give, percentage over amount in the score. ``divided`` tells whether
    any card is divided in hardware; ``adjustments`` is what the vendor does otherwise.
    """
    total_mib = cards.total_memory_mib
    # One number seen as a column: classes are remembered, and most ask for the same of every card.
    amount = np.broadcast_to(np.int64(request.memory_mib), len(total_mib))
    by_percentage = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
    share = percentage_of(total_mib, request.memory_percentage) if by_percentage else amount
    required = RequestColumns(
        cards=request.cards,
        cores=min(request.cores, WHOLE_CARD),
        memory_mib=amount if request.memory_mib else share,
        refused_kind=_refuse_kinds(cards, kinds, selector),
        refused_uuid=_refuse_uuids(uuids, selector),
        mutex=mutex,
        headroom=headroom,
        score=ScoreRequest(slots=request.cards if score_slots == "nums" else 1, cores=request.cores, memory_mib=share),
        divided=divided,
    )
    return required if adjustments is None else adjustments.apply(required, cards, request, selector)


def _refuse_kinds(cards: Cards, kinds: Sequence[tuple[str, str]], selector: CardSelector) -> Flags | None:
    refused = np.array([not selector.accepts_kind(model, mode) for model, mode in kinds], bool)
    return refused[cards.kind] if refused.any() else None


def _refuse_uuids(uuids: Sequence[str], selector: CardSelector) -> Flags | None:
    if not selector.names_uuids:
        return None
    return np.fromiter((not selector.accepts_uuid(uuid) for uuid in uuids), bool, len(uuids))
