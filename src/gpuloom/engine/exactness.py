"""Whether exactly these shares still fit: for decisions that were made elsewhere (binding 2 step 1)."""

from collections.abc import Sequence

from gpuloom.engine.demand import Phase
from gpuloom.engine.table import CardTable
from gpuloom.engine.usage import collapse
from gpuloom.model.share import PodShares


def fits_exactly(table: CardTable, node: str, shares: PodShares, phases: Sequence[Phase]) -> bool:
    """Tell whether a pod's shares fit on the very cards they name, all of them healthy cards of this node."""
    usages = collapse(shares, phases)
    rows = {uuid: table.row(node, uuid) for uuid in usages}
    cards = table.cards
    return bool(usages) and all(
        row is not None
        and bool(cards.healthy[row])
        and cards.used_slots[row] + usages[uuid].slots <= cards.count[row]
        and cards.used_memory_mib[row] + usages[uuid].memory_mib <= cards.total_memory_mib[row]
        and cards.used_cores[row] + usages[uuid].cores <= cards.total_cores[row]
        for uuid, row in rows.items()
    )
