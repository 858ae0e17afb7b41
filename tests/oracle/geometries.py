"""Divided cards of the older kind: geometries from the configuration, instances in the UUID (scheduler 6.8)."""

import re
from collections.abc import Sequence
from dataclasses import replace

from oracle.device import DeviceUsage, Instance, NodeUsage
from oracle.records import MIG_MODE, AllocatedDevice, RegisteredCard
from oracle.settings import Geometry, Settings

_SUFFIX = re.compile(r"\[([+-]?\d+)-([+-]?\d+)\]", re.ASCII)


class AllocationError(Exception):
    """No instance can be given although the filter found one."""


def uses_geometries(card: RegisteredCard) -> bool:
    """Whether a card is divided by geometries: it published no profiles."""
    return card.mode == MIG_MODE and not card.mig_profiles


def geometries_of(card: RegisteredCard, settings: Settings) -> tuple[Geometry, ...]:
    """Return the geometries of the first group of models that names a part of the card's type (wire protocol 7.1)."""
    for known in settings.devices.known_geometries:
        if any(model in card.type for model in known.models):
            return known.geometries
    return ()


def expand(geometry: Geometry) -> list[Instance]:
    """Return the instance list of a geometry."""
    return [Instance(entry.name, entry.core, entry.memory_mib) for entry in geometry for _ in range(entry.count)]


def apply_entry(device: DeviceUsage, uuid: str, settings: Settings) -> None:
    """Mark the instance that an allocated UUID ``U[t-i]`` names as used; what cannot be makes the card unhealthy."""
    if device.card.mig_profiles or ("[" not in uuid and not uses_geometries(device.card)):
        return
    suffix = _SUFFIX.fullmatch(uuid[uuid.find("[") :])
    known = geometries_of(device.card, settings)
    if device.card.mode == "hami-core" or suffix is None or not 0 <= (which := int(suffix[1])) < len(known):
        device.health = False
        return
    if not device.instances:
        device.geometry, device.instances = which, expand(known[which])
    position = int(suffix[2])
    if which != device.geometry or not 0 <= position < len(device.instances):
        device.health = False
        return
    device.instances[position].free = False


def has_capacity(
    device: DeviceUsage, memory_mib: int, collected: Sequence[AllocatedDevice], settings: Settings
) -> bool:
    """Filter: whether an instance of ``memory_mib`` is left beside those already collected on this card."""
    instances = [replace(instance) for instance in device.instances]
    if not instances:
        place = _first_place(device.card, memory_mib, settings)
        if place is None:
            return False
        instances = expand(geometries_of(device.card, settings)[place[0]])
    for taken in collected:
        position = _first_free(instances, taken.usedmem)
        if position is None:
            return False
        instances[position].free = False
    return _first_free(instances, memory_mib) is not None


def allocate(device: DeviceUsage, wanted: AllocatedDevice, settings: Settings) -> AllocatedDevice:
    """Take an instance and return the device as it goes on the wire: UUID with suffix, the instance's size.

    Raises AllocationError when there is none.
    """
    if not device.instances:
        place = _first_place(device.card, wanted.usedmem, settings)
        if place is None:
            raise AllocationError("mig template allocate resource fail")
        device.geometry, position = place
        device.instances = expand(geometries_of(device.card, settings)[device.geometry])
    else:
        found = _first_free(device.instances, wanted.usedmem)
        if found is None:
            raise AllocationError("mig template allocate resource fail")
        position = found
    instance = device.instances[position]
    instance.free = False
    return replace(
        wanted,
        uuid=f"{wanted.uuid}[{device.geometry}-{position}]",
        usedmem=instance.memory_mib,
        usedcores=instance.core or wanted.usedcores,
    )


def keep_chosen(before: NodeUsage, after: NodeUsage, settings: Settings) -> None:
    """Divide undivided cards as they are afterwards, with all instances free."""
    for device, divided in zip(before, after, strict=True):
        if not device.instances and divided.geometry is not None:
            device.geometry = divided.geometry
            device.instances = expand(geometries_of(device.card, settings)[divided.geometry])


def _first_place(card: RegisteredCard, memory_mib: int, settings: Settings) -> tuple[int, int] | None:
    """Return the first entry that is large enough: its geometry and its first instance in the expanded list."""
    for which, geometry in enumerate(geometries_of(card, settings)):
        position = 0
        for entry in geometry:
            if entry.memory_mib >= memory_mib:
                return which, position
            position += entry.count
    return None


def _first_free(instances: Sequence[Instance], memory_mib: int) -> int | None:
    found = (at for at, instance in enumerate(instances) if instance.free and instance.memory_mib >= memory_mib)
    return next(found, None)
