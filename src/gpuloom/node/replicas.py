"""The ids under which a card is offered to the kubelet: one for each container that may share it. Pure."""

from gpuloom.model.card import Card
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_instance

SLICE_MARK = "::"
INSTANCE_RESOURCE = "nvidia.com/mig-"
_REAL_UUID_DASHES = 5


def is_instance(card_id: str) -> bool:
    """Tell whether an id names a MIG instance that an administrator made, rather than a card."""
    return "MIG" in card_id


def is_instance_resource(resource: str) -> bool:
    """Tell whether a resource consists of such instances of one profile."""
    return resource.startswith(INSTANCE_RESOURCE)


def replica_ids(card: Card, *, are_slices: bool = False) -> tuple[str, ...]:
    """Return ``<UUID>-<i>`` for i below the card's count; only the id itself for a MIG instance.

    Slices in time are ``<UUID>::<i>`` for cards and instances alike.
    """
    if are_slices:
        return tuple(f"{card.id}{SLICE_MARK}{position}" for position in range(card.count))
    if is_instance(card.id):
        return (card.id,)
    return tuple(f"{card.id}-{position}" for position in range(card.count))


def physical_id(replica_id: str) -> str:
    """Return the card of a replica's id (device plugin 4); an id of another form is its own card."""
    if SLICE_MARK in replica_id:
        return replica_id.partition(SLICE_MARK)[0]
    head, _, last = replica_id.rpartition("-")
    if replica_id.count("-") == _REAL_UUID_DASHES + 1 and last.isascii() and last.isdigit():
        return head
    return replica_id


def card_of_share(uuid: str) -> str:
    """Return the card of a share, which may name an instance of it, ``GPU-a[geometry-position]``."""
    try:
        return decode_mig_instance(uuid).gpu_uuid
    except WireError:
        return uuid
