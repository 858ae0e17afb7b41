"""Whether exactly these shares still fit: for decisions that were made elsewhere (binding 2 step 1)."""

from gpuloom.engine.ledger import Reservation, sum_by_card
from gpuloom.engine.table import CardTable
from gpuloom.model.cards import UNDIVIDED


def fits_exactly(table: CardTable, reservation: Reservation) -> bool:
    """Tell whether a pod's shares fit on the very cards they name: whole, healthy cards of that node.

    Parts of divided cards are never taken over: the pod is to be filtered again.
    """
    held = sum_by_card(reservation, reservation.usage_by_vendor())
    rows = {key: table.row(*key) for key in held}
    cards = table.cards
    return bool(held) and all(
        row is not None
        and cards.healthy[row] != 0
        and cards.division[row] == UNDIVIDED
        and cards.used_slots[row] + held[key].slots <= cards.count[row]
        and cards.used_memory_mib[row] + held[key].memory_mib <= cards.total_memory_mib[row]
        and cards.used_cores[row] + held[key].cores <= cards.total_cores[row]
        for key, row in rows.items()
    )
