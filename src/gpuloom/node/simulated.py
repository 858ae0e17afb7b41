"""A simulated machine behind the NVML port, described by a TOML file.

The cards' UUIDs follow from the node's name and the card's index, so every start of the same node finds the same
cards. It knows nothing of the plugin that reads it.
"""

import asyncio
import uuid
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from gpuloom.node.errors import MachineError
from gpuloom.node.nvml import Gpu

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_LARGEST_MACHINE = 256


class CardGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[cards]]``: `count` equal cards in slots that follow each other."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    memory_mib: _Positive
    count: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_MACHINE)] = 1
    numa: Annotated[int, msgspec.Meta(ge=0)] = 0
    healthy: bool = True


class MachineDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine: its groups of cards, in the order of their indexes."""

    cards: tuple[CardGroup, ...]


def shipped_machines() -> tuple[str, ...]:
    """Names of the machine descriptions that come with gpuloom, sorted."""
    folder = files("gpuloom.node") / "machines"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_machine(name_or_path: str) -> MachineDescription:
    """Read a machine description: a shipped one by its name, any other by its path.

    Raises MachineError that names the file, the key and what is wrong with it.
    """
    if name_or_path in shipped_machines():
        text = (files("gpuloom.node") / "machines" / f"{name_or_path}.toml").read_bytes()
        return parse_machine(text, source=f"{name_or_path}.toml")
    try:
        text = Path(name_or_path).read_bytes()
    except OSError as error:
        raise MachineError(
            f"machine description {name_or_path}: {error.strerror}; give the path of a TOML file or one of: "
            f"{', '.join(shipped_machines())}"
        ) from error
    return parse_machine(text, source=name_or_path)


def parse_machine(text: bytes, *, source: str) -> MachineDescription:
    """Read the text of a machine description; `source` names it in errors.

    Raises MachineError for broken TOML, unknown keys and values out of range.
    """
    try:
        return msgspec.toml.decode(text, type=MachineDescription)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"machine description {source}: {error}") from error


class SimulatedMachine:
    """The cards of a description on a node; a test or the demo may make them sick and well again."""

    def __init__(self, node_name: str, description: MachineDescription) -> None:
        self._gpus = _make_gpus(node_name, description)
        self._changed = asyncio.Condition()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards as they are now, in the order of their indexes."""
        return self._gpus

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """See :class:`~gpuloom.node.nvml.Nvml`; never fails."""
        return self._gpus

    async def wait_for_change(self, known: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """See :class:`~gpuloom.node.nvml.Nvml`; never fails."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._gpus != known)
        return self._gpus

    async def set_health(self, card_uuid: str, *, healthy: bool) -> None:
        """Make one card sick or well.

        Raises MachineError when the machine has no such card.
        """
        if all(gpu.uuid != card_uuid for gpu in self._gpus):
            raise MachineError(f"the simulated machine has no card {card_uuid}")
        async with self._changed:
            self._gpus = tuple(replace(gpu, healthy=healthy) if gpu.uuid == card_uuid else gpu for gpu in self._gpus)
            self._changed.notify_all()


def _make_gpus(node_name: str, description: MachineDescription) -> tuple[Gpu, ...]:
    groups = [group for group in description.cards for _ in range(group.count)]
    return tuple(
        Gpu(
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node_name}')}",
            index=index,
            name=group.model,
            memory_mib=group.memory_mib,
            pci_bus_id=f"{index // 16:08x}:{index % 16 + 1:02x}:00.0".upper(),
            numa=group.numa,
            healthy=group.healthy,
        )
        for index, group in enumerate(groups)
    )
