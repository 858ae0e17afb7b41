"""Whether exactly these shares still fit: for decisions that were made elsewhere (binding 2 step 1)."""

from gpuloom.engine.fleet import Fleet
from gpuloom.engine.ledger import Reservation, card_id
from gpuloom.engine.rules import WHOLE_CARD
from gpuloom.engine.table import CardTable
from gpuloom.engine.usage import Usage
from gpuloom.model.cards import UNDIVIDED, Cards


def fits_exactly(fleet: Fleet, reservation: Reservation) -> bool:
    """Tell whether a pod's shares fit on the very cards they name: whole, healthy cards of that node.

    Parts of divided cards are never taken over: the pod is to be filtered again.
    """
    by_vendor = reservation.usage_by_vendor()
    if not any(by_vendor.values()) or any(fleet.catalog.find(word) is None for word in by_vendor):
        return False
    return all(
        _fits(fleet[word].table, reservation.node, uuid, usage, are_bits=word in fleet.ledger.bits)
        for word, usages in by_vendor.items()
        for uuid, usage in usages.items()
    )


def _fits(table: CardTable, node: str, uuid: str, usage: Usage, *, are_bits: bool) -> bool:
    row, cards = table.row(node, card_id(uuid)), table.cards
    return bool(
        row is not None
        and min(usage.slots, usage.memory_mib, usage.cores) >= 0
        and cards.healthy[row] != 0
        and cards.cordoned[row] == 0
        and cards.division[row] == UNDIVIDED
        and cards.used_slots[row] + usage.slots <= cards.count[row]
        and cards.used_memory_mib[row] + usage.memory_mib <= cards.total_memory_mib[row]
        and cards.used_cores[row] + usage.cores <= cards.total_cores[row]
        and not (are_bits and cards.used_cores[row] & usage.cores)
        and (are_bits or not _wants_other_company(cards, row, usage))
    )


def _wants_other_company(cards: Cards, row: int, usage: Usage) -> bool:
    """Whether the whole of a card in use is asked for, or a part of one whose cores are all given (6.3 rows 13, 14)."""
    if not cards.used_slots[row]:
        return False
    total = cards.total_cores[row]
    return bool(total) and (usage.cores == total == WHOLE_CARD or (not usage.cores and cards.used_cores[row] == total))
