"""Dividing simulated cards: which instances exist, and whether another one fits."""

import uuid as uuids
from collections.abc import Awaitable, Callable, Sequence

from gpuloom.model.mig import MigRuntime, Placement
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvml import Gpu, Part, PartProfile
from gpuloom.node.simulated.description import SimulatedProfile

Obey = Callable[[int | None], Awaitable[None]]
"""Suffers the faults of one card."""

Find = Callable[[str], tuple[Gpu, Sequence[SimulatedProfile]]]
"""Gives a card and what it can be divided into."""


class SimulatedMig:
    """See :class:`~gpuloom.node.nvml.MigNvml`. ``busy`` names cards that programs compute on."""

    def __init__(self, find: Find, obey: Obey) -> None:
        self.busy: set[str] = set()
        self._find = find
        self._obey = obey
        self._parts: dict[str, list[Part]] = {}

    async def read_profiles(self, uuid: str) -> tuple[PartProfile, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return tuple(
            PartProfile(
                name=profile.name,
                memory_mib=profile.memory_mib,
                multiprocessors=profile.multiprocessors,
                most=len(profile.starts),
                placements=tuple(Placement(start, profile.size) for start in profile.starts),
            )
            for profile in await self._ask(uuid)
        )

    async def enable(self, uuid: str) -> None:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        if not await self._ask(uuid):
            raise CardReadError(f"simulated card {uuid} cannot be divided")

    async def list_parts(self, uuid: str) -> tuple[Part, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(uuid)
        return tuple(self._parts.get(uuid, ()))

    async def create_part(self, uuid: str, profile: str, placement: Placement) -> MigRuntime:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        places = {
            (known.name, Placement(start, known.size)) for known in await self._ask(uuid) for start in known.starts
        }
        if (profile, placement) not in places:
            raise CardReadError(f"simulated card {uuid} has no place {placement.start} for {profile}")
        parts = self._parts.setdefault(uuid, [])
        if any(_overlap(part.placement, placement) for part in parts):
            raise CardReadError(f"simulated card {uuid} has no room for {profile} at {placement.start}")
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
        return uuid in self.busy

    async def _ask(self, uuid: str) -> Sequence[SimulatedProfile]:
        gpu, profiles = self._find(uuid)
        await self._obey(gpu.index)
        return profiles


def _overlap(one: Placement, other: Placement) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size
