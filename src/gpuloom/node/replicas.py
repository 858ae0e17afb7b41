"""The ids under which a card is offered to the kubelet: one for each container that may share it. Pure."""

from gpuloom.model.card import Card

_REAL_UUID_DASHES = 5


def replica_ids(card: Card) -> tuple[str, ...]:
    """Give ``<UUID>-<i>`` for i below the card's count; an id that names a MIG instance stands once, as it is."""
    if "MIG" in card.id:
        return (card.id,)
    return tuple(f"{card.id}-{position}" for position in range(card.count))


def physical_id(replica_id: str) -> str:
    """Tell the card behind a replica's id (device plugin 4); an id of another form is its own card."""
    if "::" in replica_id:
        return replica_id.partition("::")[0]
    head, _, last = replica_id.rpartition("-")
    if replica_id.count("-") == _REAL_UUID_DASHES + 1 and last.isascii() and last.isdigit():
        return head
    return replica_id
