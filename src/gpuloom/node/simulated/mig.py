"""Dividing simulated cards: which instances exist, and whether another one fits."""

import uuid as uuids
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gpuloom.model.mig import MigPlacement, MigRuntime
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvml import Gpu, MigDevice, Part, PartProfile
from gpuloom.node.simulated.description import SimulatedProfile, place_instances

Obey = Callable[[int | None], Awaitable[None]]
"""Suffers the faults of one card."""

Find = Callable[[str], tuple[Gpu, Sequence[SimulatedProfile]]]
"""Gives a card and what it can be divided into."""


class SimulatedMig:
    """See :class:`~gpuloom.node.nvml.MigNvml`. ``busy`` names cards and instances that programs compute on."""

    def __init__(self, find: Find, obey: Obey) -> None:
        self.busy: set[str] = set()
        self._find = find
        self._obey = obey
        self._parts: dict[str, list[Part]] = {}
        self._on: set[str] = set()
        self._divided: dict[str, Sequence[str]] = {}

    def divide(self, instances: Mapping[str, Sequence[str]]) -> None:
        """Divide cards as an administrator would, into instances of these profiles by card; each way only once."""
        for uuid, names in instances.items():
            if self._divided.get(uuid, ()) == names:
                continue
            self._divided[uuid] = names
            self._parts[uuid] = []
            self._on.discard(uuid)
            if names:
                self._on.add(uuid)
            for name, place in zip(names, place_instances(self._find(uuid)[1], names), strict=True):
                self._put(uuid, name, place)

    def is_on(self, uuid: str) -> bool:
        """Whether a card may be divided now."""
        return uuid in self._on

    def list_devices(self, uuid: str) -> tuple[MigDevice, ...]:
        """Give the instances on a card as programs see them."""
        _, known = self._find(uuid)
        memory_mib = {profile.name: profile.memory_mib for profile in known}
        return tuple(
            MigDevice(
                part.runtime.mig_uuid,
                part.profile,
                memory_mib[part.profile],
                part.gpu_instance_id,
                part.runtime.compute_instance_id,
            )
            for part in self._parts.get(uuid, ())
            if part.runtime
        )

    async def read_profiles(self, uuid: str) -> tuple[PartProfile, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return tuple(
            PartProfile(
                name=profile.name,
                memory_mib=profile.memory_mib,
                multiprocessors=profile.multiprocessors,
                most=len(profile.starts),
                placements=tuple(MigPlacement(start, profile.size) for start in profile.starts),
            )
            for profile in await self._ask(uuid)
        )

    async def enable(self, uuid: str) -> None:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        if not await self._ask(uuid):
            raise CardReadError(f"simulated card {uuid} cannot be divided")
        self._on.add(uuid)

    async def list_parts(self, uuid: str) -> tuple[Part, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(uuid)
        return tuple(self._parts.get(uuid, ()))

    async def create_part(self, uuid: str, profile: str, placement: MigPlacement) -> MigRuntime:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        places = {
            (known.name, MigPlacement(start, known.size)) for known in await self._ask(uuid) for start in known.starts
        }
        if (profile, placement) not in places:
            raise CardReadError(f"simulated card {uuid} has no place {placement.start} for {profile}")
        if uuid not in self._on:
            raise CardReadError(f"simulated card {uuid} is not divided, MIG is off")
        if any(part.placement.overlaps(placement) for part in self._parts.get(uuid, ())):
            raise CardReadError(f"simulated card {uuid} has no room for {profile} at {placement.start}")
        return self._put(uuid, profile, placement)

    def _put(self, uuid: str, profile: str, placement: MigPlacement) -> MigRuntime:
        parts = self._parts.setdefault(uuid, [])
        number = max((part.gpu_instance_id for part in parts), default=0) + 1
        runtime = MigRuntime(f"MIG-{uuids.uuid5(uuids.NAMESPACE_DNS, f'{placement.start}.{uuid}')}", number, 0)
        parts.append(Part(number, profile, placement, runtime))
        return runtime

    async def destroy_part(self, uuid: str, gpu_instance_id: int) -> None:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(uuid)
        self._parts[uuid] = [part for part in self._parts.get(uuid, ()) if part.gpu_instance_id != gpu_instance_id]

    async def is_busy(self, uuid: str) -> bool:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(uuid)
        return any(self._computes(uuid, part) for part in self._parts.get(uuid, ())) or uuid in self.busy

    async def is_part_busy(self, uuid: str, gpu_instance_id: int) -> bool:
        """See :class:`~gpuloom.node.nvml.MigNvml`; where programs on a card are on any instance is not known."""
        await self._ask(uuid)
        parts = self._parts.get(uuid, ())
        return any(self._computes(uuid, part) for part in parts if part.gpu_instance_id == gpu_instance_id)

    def _computes(self, uuid: str, part: Part) -> bool:
        return uuid in self.busy or (part.runtime is not None and part.runtime.mig_uuid in self.busy)

    async def _ask(self, uuid: str) -> Sequence[SimulatedProfile]:
        gpu, profiles = self._find(uuid)
        await self._obey(gpu.index)
        return profiles
