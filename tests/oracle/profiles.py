"""Divided cards of the newer kind: profiles published by the node, instances in an annotation (scheduler 6.9)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from oracle.device import DeviceUsage, NodeUsage, find_device
from oracle.geometries import AllocationError
from oracle.records import MIG_MODE, AllocatedDevice, MigAllocation, MigProfile, Placement, RegisteredCard

HIGHEST_START_FIRST = ("1g.", "3g.")


def overlap(one: Placement, other: Placement) -> bool:
    """Whether two placements share a slice."""
    return one.start < other.start + other.size and other.start < one.start + one.size


def select(card: RegisteredCard, occupied: Sequence[Placement], memory_mib: int) -> tuple[MigProfile, Placement] | None:
    """Return the smallest profile that is large enough and has a free placement, with that placement."""
    for profile in sorted(card.mig_profiles, key=lambda profile: (profile.memory_mib, profile.slice_count)):
        if profile.memory_mib >= memory_mib:
            for placement in _in_order(profile):
                if not any(overlap(placement, other) for other in occupied):
                    return profile, placement
    return None


def has_capacity(device: DeviceUsage, memory_mib: int, collected: Sequence[AllocatedDevice]) -> bool:
    """Filter: whether an instance of ``memory_mib`` finds a place beside those already collected on this card."""
    occupied = list(device.occupied)
    for size_mib in (*(taken.usedmem for taken in collected), memory_mib):
        chosen = select(device.card, occupied, size_mib)
        if chosen is None:
            return False
        occupied.append(chosen[1])
    return True


def allocate(device: DeviceUsage, wanted: AllocatedDevice) -> tuple[AllocatedDevice, MigProfile, Placement]:
    """Take an instance; return the device with the instance's size, and which instance it is.

    Raises AllocationError when there is none.
    """
    chosen = select(device.card, device.occupied, wanted.usedmem)
    if chosen is None:
        raise AllocationError("MIG profile and placement allocation failed")
    profile, placement = chosen
    device.occupied.append(placement)
    return replace(wanted, usedmem=profile.memory_mib, usedcores=profile.core), profile, placement


def apply_pod(node: NodeUsage, entries: Iterable[AllocatedDevice], items: Iterable[MigAllocation]) -> None:
    """Rebuild the state of a node's divided cards from one pod: its raw device entries and its allocation list."""
    by_uuid = {device.card.id: device for device in node}
    left: dict[str, list[MigAllocation]] = {}
    for item in items:
        left.setdefault(item.gpu_uuid, []).append(item)
    for entry in entries:
        device = find_device(node, entry.uuid)
        if device is not None:
            _consume(device, left.get(device.card.id, []))
    for uuid, rest in left.items():
        if rest and uuid not in by_uuid:
            _distrust(device for device in by_uuid.values() if device.card.mode == MIG_MODE)
        for item in rest:
            if uuid in by_uuid:
                _occupy(by_uuid[uuid], item)


def _consume(device: DeviceUsage, items: list[MigAllocation]) -> None:
    """Use up one item of the allocation list for one device entry."""
    if items:
        item = items.pop(0)
        if device.card.mode == MIG_MODE:
            device.occupied.append(item.placement)
        elif device.card.mode == "hami-core":
            device.health = False
    elif device.card.mode == MIG_MODE and device.card.mig_profiles:
        device.health = False


def _occupy(device: DeviceUsage, item: MigAllocation) -> None:
    if device.card.mode == MIG_MODE:
        device.occupied.append(item.placement)
    else:
        device.health = False


def _distrust(devices: Iterable[DeviceUsage]) -> None:
    for device in devices:
        device.health = False


def _in_order(profile: MigProfile) -> list[Placement]:
    highest_first = profile.name.startswith(HIGHEST_START_FIRST)
    return sorted(profile.placements, key=lambda placement: placement.start, reverse=highest_first)
