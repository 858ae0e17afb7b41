"""Cards divided into instances (MIG), as values: what is free, what taking one leaves (scheduler 6.8, 6.9).

Two kinds exist. *By geometry* (HAMi up to 2.9): the configuration lists for each model the ways in which a card can be
divided; the first instance taken chooses one, and the card keeps it while anything is in use. *By published profiles*
(2.10): the node says which profiles fit at which placements, and any mixture that does not overlap is allowed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from gpuloom.model.mig import MigGeometry, MigPlacement, MigProfile

_FROM_THE_TOP = ("1g.", "3g.")
"""Profiles that are placed from the highest start down, so that they leave room for larger ones (scheduler 6.9)."""


class PartitionError(ValueError):
    """What pods hold of a card cannot be: the card is not to be used until somebody looks."""


@dataclass(frozen=True, slots=True)
class TakenInstance:
    """An instance taken: what it really has, and how the wire names it.

    part      geometry and position, by geometry
    profile   and ``placement``, by published profiles
    cores     None: as requested
    """

    memory_mib: int
    cores: int | None
    part: tuple[int, int] | None = None
    profile: str = ""
    placement: MigPlacement | None = None


@dataclass(frozen=True)
class ProfilePartition:
    """A card with published profiles, and the slices in use, as bits."""

    profiles: tuple[MigProfile, ...]
    occupied: int = 0

    @cached_property
    def largest_free_mib(self) -> int:
        """Memory of the largest instance that can still be made, -1 when none can."""
        return max((p.memory_mib for p in self.profiles if self._find_room(p) is not None), default=-1)

    def take(self, memory_mib: int) -> "tuple[ProfilePartition, TakenInstance] | None":
        """Take the smallest instance with at least so much memory; None when there is no room."""
        for profile in sorted(self.profiles, key=lambda p: (p.memory_mib, p.slice_count)):
            placement = self._find_room(profile) if profile.memory_mib >= memory_mib else None
            if placement is not None:
                taken = TakenInstance(profile.memory_mib, profile.cores, profile=profile.name, placement=placement)
                return self.occupy(placement), taken
        return None

    def occupy(self, placement: MigPlacement) -> "ProfilePartition":
        """Return the card with one more placement in use."""
        return replace(self, occupied=self.occupied | placement.bits)

    def _find_room(self, profile: MigProfile) -> MigPlacement | None:
        downwards = profile.name.startswith(_FROM_THE_TOP)
        for placement in sorted(profile.placements, key=lambda p: p.start, reverse=downwards):
            if not placement.bits & self.occupied:
                return placement
        return None


@dataclass(frozen=True)
class GeometryPartition:
    """A card that can be divided in listed ways; ``chosen`` is the one in force, None while nobody has chosen one.

    geometries  each a list of instances, in order
    used        positions of the instances in use
    """

    geometries: tuple[MigGeometry, ...]
    chosen: int | None = None
    used: frozenset[int] = frozenset()

    @cached_property
    def largest_free_mib(self) -> int:
        """Memory of the largest free instance, -1 when there is none."""
        open_ = self.geometries if self.chosen is None else (self.geometries[self.chosen],)
        return max((i.memory_mib for g in open_ for at, i in enumerate(g) if at not in self.used), default=-1)

    def take(self, memory_mib: int) -> "tuple[GeometryPartition, TakenInstance] | None":
        """Take the first instance with so much memory; an unused card gets the first geometry that has one."""
        candidates: Iterable[int] = range(len(self.geometries)) if self.chosen is None else (self.chosen,)
        for chosen in candidates:
            for position, instance in enumerate(self.geometries[chosen]):
                if position not in self.used and instance.memory_mib >= memory_mib:
                    taken = TakenInstance(instance.memory_mib, instance.cores or None, part=(chosen, position))
                    return replace(self, chosen=chosen, used=self.used | {position}), taken
        return None

    def occupy(self, geometry: int, position: int) -> "GeometryPartition":
        """Return the card with this instance in use.

        Raises PartitionError when the card cannot have it.
        """
        if not (0 <= geometry < len(self.geometries) and 0 <= position < len(self.geometries[geometry])):
            raise PartitionError(f"there is no instance [{geometry}-{position}]")
        if self.chosen not in {None, geometry}:
            raise PartitionError(f"instance [{geometry}-{position}] of a card divided by geometry {self.chosen}")
        return replace(self, chosen=geometry, used=self.used | {position})


Partition = ProfilePartition | GeometryPartition
