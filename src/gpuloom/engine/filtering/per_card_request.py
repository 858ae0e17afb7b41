"""From a request to columns: what each card would have to give (scheduler 6.3 rows 8 and 9, 5.2)."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import EquivalenceClass
from gpuloom.engine.request.demand import CardSelector
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.node_batch import NodeBatch
from gpuloom.model.cards import WHOLE_CARD, Cards, Flags, Ints
from gpuloom.model.memory_percentage import percentage_to_mib
from gpuloom.model.request import PERCENTAGE_NOT_SET
from gpuloom.model.request_columns import RequestColumns, ScoreRequest, VendorColumns, repeat_number


def make_request_columns(
    compiled: CompiledProfile, source: CardTable | NodeBatch, asked: EquivalenceClass
) -> RequestColumns:
    """Work out what a request needs of the cards of a table, or of some nodes.

    Amount wins over percentage in what a card must give, percentage over amount in the score.
    """
    table = source.table if isinstance(source, NodeBatch) else source
    cards, request = source.cards, asked.request
    total_mib = cards.total_memory_mib
    # Seen as a column, not made one: classes are remembered, and most ask for the same of every card.
    amount = repeat_number(request.memory_mib, len(total_mib))
    by_percentage = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
    share = percentage_to_mib(total_mib, request.memory_percentage) if by_percentage else amount
    slots = request.cards if compiled.score_slots == "nums" else 1
    required = RequestColumns(
        cards=request.cards,
        cores=min(request.cores, WHOLE_CARD),
        memory_mib=amount if request.memory_mib else share,
        refused_kind=_refuse_kinds(cards, table.kinds, asked.selector),
        refused_uuid=_refuse_uuids(source.uuids, asked.selector),
        mutex=asked.mutex,
        headroom=asked.headroom,
        score=ScoreRequest(slots=slots, cores=request.cores, memory_mib=share),
        divided=bool(source.partitions),
    )
    given = compiled.profile.share
    if given.memory_mib >= 0:
        required = replace(required, memory_mib=repeat_number(given.memory_mib, len(total_mib)))
    if given.cores >= 0:
        required = replace(required, cores=given.cores)
    return _add_vendor_columns(compiled, source, table, required, asked) if compiled.is_hooked else required


def _add_vendor_columns(
    compiled: CompiledProfile,
    source: CardTable | NodeBatch,
    table: CardTable,
    required: RequestColumns,
    asked: EquivalenceClass,
) -> RequestColumns:
    """Ask the vendor's hook once for all cards of nodes that say the same."""
    cards, count = source.cards, len(source.cards)
    memory_mib, total_cores = np.array(required.memory_mib), np.array(cards.total_cores)
    cores = np.full(count, required.cores, np.int64)
    slots, wanted = np.ones(count, np.int64), np.full(count, required.cards, np.int64)
    unsupported = np.zeros(count, bool)
    alike: set[int] = set()
    if (work_out := compiled.request_hook) is not None:
        for number, rows in _group(source):
            need = work_out(asked.request, cards.rows(rows), table.facts[number], compiled.profile)
            if need is None:
                unsupported[rows] = True
                continue
            memory_mib[rows], cores[rows], slots[rows] = need.memory_mib, need.cores, need.slots
            if need.total_cores is not None:
                total_cores[rows] = need.total_cores
            if need.cards is not None:
                wanted[rows] = need.cards
            alike.add(need.cores if isinstance(need.cores, int) else -1)
    one = next(iter(alike)) if len(alike) == 1 else -1
    tenancy = asked.selector.tenancy
    vendor_columns = VendorColumns(
        slots=slots,
        total_cores=total_cores,
        cards=wanted,
        unsupported=unsupported,
        app_class=tenancy.app_class,
        policy=table.numbering.number_word(tenancy.policy),
        whole=asked.request.cores == WHOLE_CARD,
    )
    plain = required.cores if not alike else one if one >= 0 else cores
    return replace(required, memory_mib=memory_mib, cores=plain, vendor_columns=vendor_columns)


def _group(source: CardTable | NodeBatch) -> Iterator[tuple[int, Ints | slice]]:
    """Return the rows of nodes that say the same; rows that nobody has any more say nothing."""
    owned = np.flatnonzero(source.cards.node != NO_NODE)
    numbers = source.facts_of_cards[owned]
    if len(owned) == len(source.cards) and (numbers == numbers[:1]).all():
        # The rule. Other rows are copied, which takes longer than all the rest.
        yield from ((number, slice(None)) for number in numbers[:1].tolist())
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    yield from zip(numbers[order][starts].tolist(), np.split(owned[order], starts[1:]), strict=False)


def _refuse_kinds(cards: Cards, kinds: Sequence[tuple[str, str]], selector: CardSelector) -> Flags | None:
    if not selector.names_kinds:
        return None
    refused = np.array([not selector.accepts_kind(model, mode) for model, mode in kinds], bool)
    return refused[cards.kind] if refused.any() else None


def _refuse_uuids(uuids: Sequence[str], selector: CardSelector) -> Flags | None:
    if not selector.names_uuids:
        return None
    return np.fromiter((not selector.accepts_uuid(uuid) for uuid in uuids), bool, len(uuids))
