"""A simulated machine. It knows nothing about the plugin that reads it.

UUIDs depend only on the node's name and the card's index, so every start of the same node finds the same cards.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Self

import structlog

from gpuloom.node.errors import CardReadError, DriverSilentError, MachineError
from gpuloom.node.nvml import Ancestor, Coverage, Gpu, Interconnect, NvLink, XidEvent
from gpuloom.node.simulated.description import (
    CardGroup,
    MachineDescription,
    SimulatedFault,
    SimulatedProfile,
    SimulatedSlot,
    load_machine,
)
from gpuloom.node.simulated.mig import SimulatedMig

_TICK_S = 1.0
_MOST_EVENTS = 1000
_SWITCH_BUS_ID = "00000000:FF:00.0"
_log = structlog.get_logger(__name__)


class SimulatedMachine:
    """The cards of a description on a node; tests and the demo can make them sick and well again.

    With `source`, the file of the description, faults and health follow the file as it is edited.
    """

    def __init__(
        self, node_name: str, description: MachineDescription, *, source: Path | None = None, tick_s: float = _TICK_S
    ) -> None:
        self._node_name = node_name
        self._source = source
        self._read_at = _modified(source)
        self._tick_s = tick_s
        self._groups: tuple[CardGroup, ...] = ()
        self._slots: tuple[SimulatedSlot, ...] = ()
        self._gpus: tuple[Gpu, ...] = ()
        self._faults: tuple[SimulatedFault, ...] = ()
        self._events: deque[XidEvent] = deque(maxlen=_MOST_EVENTS)
        self._stirred = asyncio.Event()
        self._mig = SimulatedMig(self._find_profiles, self._obey)
        self.describe(description)

    @classmethod
    def load(cls, node_name: str, name_or_path: str) -> Self:
        """Make the machine of a shipped description, or of a file that it then follows.

        Raises MachineError.
        """
        path = Path(name_or_path)
        return cls(node_name, load_machine(name_or_path), source=path if path.is_file() else None)

    @property
    def mig(self) -> SimulatedMig:
        """See :class:`~gpuloom.node.nvml.Nvml`; tests use it to change instances."""
        return self._mig

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards as they are now, in the order of their indexes."""
        return tuple(
            replace(
                gpu,
                healthy=gpu.healthy and not self._has("lost", gpu.index),
                can_be_divided=self._mig.is_on(gpu.uuid),
                devices=self._mig.list_devices(gpu.uuid),
            )
            for gpu in self._gpus
        )

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        await self._obey(None)
        return self.gpus

    def forget_absent(self) -> None:
        """See :class:`~gpuloom.node.nvml.Nvml`; it knows only the cards of its description."""

    async def watch_events(self) -> Mapping[str, Coverage]:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        await self._obey(None)
        return {gpu.uuid: Coverage.WATCHED if gpu.healthy else Coverage.FAILED for gpu in self.gpus}

    async def wait_for_event(self) -> XidEvent | None:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        await self._obey(None)
        if not self._events:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tick_s):
                    await self._stirred.wait()
        self._stirred.clear()
        self._follow_source()
        return self._events.popleft() if self._events else None

    async def probe(self, uuid: str) -> None:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        card = next((gpu.uuid for gpu in self.gpus if any(device.uuid == uuid for device in gpu.devices)), uuid)
        gpu = self._find(card)
        await self._obey(gpu.index)
        if not gpu.healthy:
            raise CardReadError(f"simulated card {uuid} is lost")

    async def read_interconnect(self, uuids: Sequence[str]) -> Interconnect:
        """See :class:`~gpuloom.node.nvml.Nvml`; the slots say what cards have in common."""
        await self._obey(None)
        gpus = [self._find(uuid) for uuid in uuids]
        ancestors = {
            (one.uuid, other.uuid): find_ancestor(self._slots[one.index], self._slots[other.index])
            for one, other in permutations(gpus, 2)
        }
        return Interconnect(ancestors, {gpu.uuid: self._links(gpu) for gpu in gpus})

    async def set_health(self, card_uuid: str, *, healthy: bool) -> None:
        """Take one card off the bus, or put it back.

        Raises MachineError when the machine has no such card.
        """
        if all(gpu.uuid != card_uuid for gpu in self._gpus):
            raise MachineError(f"the simulated machine has no card {card_uuid}")
        self._gpus = tuple(replace(gpu, healthy=healthy) if gpu.uuid == card_uuid else gpu for gpu in self._gpus)
        self._stirred.set()

    def raise_xid(self, card_uuid: str | None, xid: int, instance: tuple[int, int] | None = None) -> None:
        """Report a critical error of a card, of an `instance` on it, or of an unknown card (None)."""
        self._events.append(XidEvent(card_uuid, xid, instance))
        self._stirred.set()

    def set_faults(self, faults: Iterable[SimulatedFault]) -> None:
        """Let these faults, and no others, be in force from now on."""
        self._put_faults(tuple(faults))

    def describe(self, description: MachineDescription) -> None:
        """Become the described machine; cards that stay keep the instances that were made or destroyed meanwhile."""
        self._groups = _spread(description)
        self._slots = tuple(slot for group in description.cards for slot in group.places)
        self._gpus = _make_gpus(self._node_name, self._groups, self._slots)
        self._mig.divide({gpu.uuid: group.instances for gpu, group in zip(self._gpus, self._groups, strict=True)})
        self._put_faults(description.faults)

    def _put_faults(self, faults: tuple[SimulatedFault, ...]) -> None:
        for fault in faults:
            if fault.kind == "xid" and fault not in self._faults:
                self._events.append(XidEvent(None if fault.card is None else self._gpus[fault.card].uuid, fault.xid))
        self._faults = faults
        self._stirred.set()

    def _follow_source(self) -> None:
        """Apply an edited description; one that cannot be used changes nothing."""
        if self._source is None or (modified := _modified(self._source)) == self._read_at:
            return
        self._read_at = modified
        try:
            description = load_machine(str(self._source))
        except MachineError as error:
            _log.error("machine description cannot be used, keeping the last one", error=str(error))
            return
        self.describe(description)
        _log.info("machine description has changed", source=str(self._source), cards=len(self._gpus))

    async def _obey(self, card: int | None) -> None:
        """Apply the faults of the driver and of one card."""
        for fault in self._faults:
            if fault.card not in {None, card}:
                continue
            if fault.kind == "slow":
                await asyncio.sleep(fault.delay_s)
            elif fault.kind == "silent":
                raise DriverSilentError("the simulated driver does not answer")
            elif fault.kind == "failing":
                raise CardReadError("the simulated driver fails")

    def _has(self, kind: str, card: int) -> bool:
        return any(fault.kind == kind and fault.card == card for fault in self._faults)

    def _find(self, card_uuid: str) -> Gpu:
        for gpu in self.gpus:
            if gpu.uuid == card_uuid:
                return gpu
        raise CardReadError(f"the simulated machine has no card {card_uuid} any more")

    def _find_profiles(self, card_uuid: str) -> tuple[Gpu, Sequence[SimulatedProfile]]:
        for gpu, group in zip(self._gpus, self._groups, strict=True):
            if gpu.uuid == card_uuid:
                return gpu, group.mig_profiles
        raise CardReadError(f"the simulated machine has no card {card_uuid} any more")

    def _links(self, gpu: Gpu) -> tuple[NvLink, ...]:
        group = self._groups[gpu.index]
        peers = [
            other
            for other, its_group in zip(self._gpus, self._groups, strict=True)
            if its_group is group and other.uuid != gpu.uuid
        ]
        to_peers = [NvLink(peer.pci_bus_id) for peer in peers for _ in range(group.peer_links)]
        return (*to_peers, *(NvLink(_SWITCH_BUS_ID, to_switch=True) for _ in range(group.switch_links)))


def _spread(description: MachineDescription) -> tuple[CardGroup, ...]:
    """Return the group of every card, by index."""
    return tuple(group for group in description.cards for _ in group.places)


def find_ancestor(one: SimulatedSlot, other: SimulatedSlot) -> Ancestor:
    """Tell what two cards have in common by the ways to their slots."""
    if one.numa != other.numa:
        return Ancestor.SYSTEM
    ways = one.pci.split("/"), other.pci.split("/")
    if "" in {one.pci, other.pci} or ways[0][0] != ways[1][0]:
        return Ancestor.NODE
    if ways[0][:2] != ways[1][:2] or len(ways[0]) == 1:
        return Ancestor.HOSTBRIDGE
    return Ancestor.SINGLE if ways[0] == ways[1] else Ancestor.MULTIPLE


def _make_gpus(node_name: str, groups: Sequence[CardGroup], slots: Sequence[SimulatedSlot]) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node_name}')}",
            index=index,
            name=group.model,
            memory_mib=group.memory_mib,
            pci_bus_id=f"{index // 16:08x}:{index % 16 + 1:02x}:00.0".upper(),
            numa=slot.numa,
            healthy=group.healthy,
            minor=index,
        )
        for index, (group, slot) in enumerate(zip(groups, slots, strict=True))
    )


def _modified(path: Path | None) -> int | None:
    if path is None:
        return None
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
