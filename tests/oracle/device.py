"""A card in the snapshot of one request: what it is and what it has given away (scheduler 1, device usage)."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oracle.records import AllocatedDevice, Placement, RegisteredCard


@dataclass(slots=True)
class Instance:
    """One instance of a geometry that a card is divided into."""

    name: str
    core: int
    memory_mib: int
    free: bool = True


@dataclass(slots=True)
class DeviceUsage:
    """A card and its usage. ``order`` is the position in the registration; the last three are for divided cards."""

    card: RegisteredCard
    order: int = 0
    health: bool = True
    used: int = 0
    usedmem: int = 0
    usedcores: int = 0
    score: float = 0.0
    geometry: int | None = None
    instances: list[Instance] = field(default_factory=list)
    occupied: list[Placement] = field(default_factory=list)

    def copy(self) -> "DeviceUsage":
        """Return a copy that can be changed without changing this one."""
        instances = [replace(instance) for instance in self.instances]
        return replace(self, instances=instances, occupied=list(self.occupied))

    def charge(self, device: AllocatedDevice) -> None:
        """Account one allocated device after Fit (6.12)."""
        self.used += 1
        self.usedcores += device.usedcores
        self.usedmem += device.usedmem


NodeUsage = list[DeviceUsage]


def idle_usage(cards: Iterable[RegisteredCard]) -> NodeUsage:
    """Return the snapshot of a node on which nothing runs (4.3 step 1)."""
    return [DeviceUsage(card=card, order=order, health=card.health) for order, card in enumerate(cards)]


def copy_usage(node: NodeUsage) -> NodeUsage:
    """Return a snapshot that can be changed without changing this one."""
    return [device.copy() for device in node]


def find_device(node: NodeUsage, uuid: str) -> DeviceUsage | None:
    """Find the card of an allocated device: exact UUID, or the part before the instance of a divided card."""
    bare = uuid.split("[", maxsplit=1)[0]
    return next((device for device in node if device.card.id in {uuid, bare}), None)
