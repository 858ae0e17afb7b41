"""MIG: what a card can be cut into, and which piece a container was given."""

from dataclasses import dataclass
from typing import Final

MIG_MODE: Final = "mig"
"""The mode of a card that is cut, as nodes register it and pods name it."""

MOST_SLICES: Final = 64
"""More slices than any card is cut into."""


@dataclass(frozen=True, slots=True)
class MigPlacement:
    """A range of a card's slices: the first one and how many."""

    start: int
    size: int

    @property
    def bits(self) -> int:
        """The slices as bits, the first one lowest; those that no card has are left out."""
        first, end = min(self.start, MOST_SLICES), min(self.start + self.size, MOST_SLICES)
        return (1 << end) - (1 << first)

    def overlaps(self, other: "MigPlacement") -> bool:
        """Tell whether both hold the same slice."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One kind of instance that a card offers, ``cores`` in per cent of the whole card, and where it may lie."""

    name: str
    memory_mib: int = 0
    cores: int = 0
    slice_count: int = 0
    placements: tuple[MigPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class MigRuntime:
    """What an instance is called once the device plugin has made it."""

    mig_uuid: str
    gpu_instance_id: int
    compute_instance_id: int


@dataclass(frozen=True, slots=True)
class MigAllocation:
    """An instance promised to one entry of a pod's device list.

    ``container_index`` counts init containers first, ``device_index`` within that container's shares; ``runtime`` is
    None until the instance exists.
    """

    container_index: int
    device_index: int
    gpu_uuid: str
    profile: str
    placement: MigPlacement
    runtime: MigRuntime | None = None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """An instance in HAMi's older way: a position in one of the geometries configured for the card's model."""

    gpu_uuid: str
    geometry: int
    position: int


@dataclass(frozen=True, slots=True)
class MigPart:
    """One instance of a configured geometry as it really is; ``cores`` 0 where the configuration does not say."""

    memory_mib: int
    cores: int = 0


MigGeometry = tuple[MigPart, ...]
"""One way to cut a card in HAMi's older way; positions are part of the wire."""
