"""Whether exactly these shares still fit: for decisions that were made elsewhere (binding 2 step 1)."""

import numpy as np

from gpuloom.engine.filtering.rule_table import ALWAYS_ASKED, RULES
from gpuloom.engine.filtering.rules import Adoption
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.usage import Usage
from gpuloom.model.cards import UNDIVIDED
from gpuloom.model.request_columns import UNBOUNDED, RequestColumns, ScoreRequest
from gpuloom.model.uuids import card_id

_BY_ADOPTION = {
    adoption: [rule.rejects for rule in (*RULES.values(), *ALWAYS_ASKED.values()) if rule.adoption is adoption]
    for adoption in Adoption
}


def fits_exactly(cluster_state: ClusterState, reservation: Reservation) -> bool:
    """Tell whether a pod's shares fit on the very cards they name: whole, healthy cards of that node.

    Parts of divided cards are never taken over: the pod is to be filtered again.
    """
    by_vendor = reservation.usage_by_vendor()
    if not any(by_vendor.values()) or any(cluster_state.catalog.find(word) is None for word in by_vendor):
        return False
    return all(
        _fits(cluster_state[word].table, reservation.node, uuid, usage, are_bits=word in cluster_state.ledger.bits)
        for word, usages in by_vendor.items()
        for uuid, usage in usages.items()
    )


def _fits(table: CardTable, node: str, uuid: str, usage: Usage, *, are_bits: bool) -> bool:
    """Tell whether one card has so much free and no rule that may be asked of a decision made elsewhere rejects it."""
    row = table.row(node, card_id(uuid))
    if row is None or min(usage.slots, usage.memory_mib, usage.cores) < 0:
        return False
    card = table.cards.rows(slice(row, row + 1))
    required = _required(usage)
    asked = [*_BY_ADOPTION[Adoption.ASKED], *([] if are_bits else _BY_ADOPTION[Adoption.PER_CENT])]
    if any(np.any(rejects(card, required)) for rejects in asked):
        return False
    taken = ~card.total_cores | card.used_cores
    if are_bits and (taken & usage.cores).any():
        return False
    return bool(card.division[0] == UNDIVIDED and card.used_slots[0] + usage.slots <= card.count[0])


def _required(usage: Usage) -> RequestColumns:
    """Ask of one card what a pod holds of it in all."""
    memory_mib = np.array([usage.memory_mib], np.int64)
    return RequestColumns(
        cards=1,
        cores=usage.cores,
        memory_mib=memory_mib,
        refused_kind=None,
        refused_uuid=None,
        mutex=False,
        headroom=UNBOUNDED,
        score=ScoreRequest(slots=usage.slots, cores=usage.cores, memory_mib=memory_mib),
    )
