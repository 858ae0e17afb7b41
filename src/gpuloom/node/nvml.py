"""The interface through which a node's cards are read and watched.

It holds what the plugin needs and nothing of any library: the driver (:mod:`gpuloom.node.nvidia`) and a simulated
machine (:mod:`gpuloom.node.simulated`) stand behind it. Implementations keep calls that may block off the event loop
and give up on a driver that does not answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol

from gpuloom.model.mig import MigPlacement, MigRuntime


@dataclass(frozen=True, slots=True)
class MigDevice:
    """An instance on a divided card as programs use it, whoever made it; ``profile`` such as ``1c.3g.20gb``."""

    uuid: str
    profile: str
    memory_mib: int
    gpu_instance_id: int
    compute_instance_id: int
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical card as the driver describes it.

    ``memory_mib`` is None when the card cannot tell (unified memory). ``name`` is the driver's product name, ``minor``
    the N of ``/dev/nvidiaN``. ``healthy`` is False for a card that was there and does not answer any more,
    ``can_be_divided`` says that MIG is switched on, ``devices`` are the instances that are there then.
    """

    uuid: str
    index: int
    name: str
    memory_mib: int | None
    pci_bus_id: str
    numa: int = 0
    healthy: bool = True
    minor: int | None = None
    can_be_divided: bool = False
    devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical error that the driver reports; ``uuid`` is None when it cannot tell which card it is about.

    ``instance`` are the ids of the GPU instance and the compute instance that it is about, None for the whole card.
    """

    uuid: str | None
    xid: int
    instance: tuple[int, int] | None = None


class Coverage(Enum):
    """Whether the driver will report a card's critical errors."""

    WATCHED = "watched"
    UNSUPPORTED = "too old to report errors"
    FAILED = "cannot be watched"


class Ancestor(IntEnum):
    """What two cards have in common on the way to each other; the values are the driver's topology levels."""

    INTERNAL = 0
    SINGLE = 10
    MULTIPLE = 20
    HOSTBRIDGE = 30
    NODE = 40
    SYSTEM = 50


@dataclass(frozen=True, slots=True)
class NvLink:
    """An enabled link of a card; ``remote_bus_id`` is a PCI bus id in any spelling, of a card or of a switch."""

    remote_bus_id: str
    to_switch: bool = False


@dataclass(frozen=True, slots=True)
class Interconnect:
    """How cards are connected: ancestors by pair of UUIDs, in both orders, and the enabled links by UUID."""

    ancestors: Mapping[tuple[str, str], Ancestor]
    links: Mapping[str, Sequence[NvLink]]


def normalize_bus_id(bus_id: str) -> str:
    """Spell a PCI bus id as sysfs does: lower case, domain of four digits (device plugin 6.1)."""
    text = bus_id.lower()
    return text[4:] if text.startswith("0000") and text.find(":") == 8 else text


@dataclass(frozen=True, slots=True)
class PartProfile:
    """A kind of MIG instance that the driver can make of a card; ``most`` is how many of it fit on an empty one."""

    name: str
    memory_mib: int
    multiprocessors: int
    most: int
    placements: tuple[MigPlacement, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A MIG instance that exists, whole: a GPU instance with one compute instance over all of it.

    ``runtime`` is None for one that is not whole, as others may have made it.
    """

    gpu_instance_id: int
    profile: str
    placement: MigPlacement
    runtime: MigRuntime | None


class MigNvml(Protocol):
    """Dividing cards. Every method raises CardReadError when the driver refuses or does not answer."""

    async def read_profiles(self, uuid: str) -> tuple[PartProfile, ...]:
        """What a card can be divided into; empty for one that cannot be divided."""

    async def enable(self, uuid: str) -> None:
        """Let a card be divided.

        Raises CardReadError also where that needs a reset of the card.
        """

    async def list_parts(self, uuid: str) -> tuple[Part, ...]:
        """What a card is divided into now; empty for one that is not."""

    async def create_part(self, uuid: str, profile: str, placement: MigPlacement) -> MigRuntime:
        """Make one instance exactly there; what was made is taken back when a step fails.

        Raises DriverSilentError and HalfMadeError where an instance may be there nevertheless, or still come.
        """

    async def destroy_part(self, uuid: str, gpu_instance_id: int) -> None:
        """Take one instance away; one that is gone already is fine, one in use is not."""

    async def is_busy(self, uuid: str) -> bool:
        """Whether a program computes on the card or on any part of it."""

    async def is_part_busy(self, uuid: str, gpu_instance_id: int) -> bool:
        """Whether a program computes on one instance."""


class Nvml(Protocol):
    """A source of cards. Every method raises CardReadError when the driver does not answer; callers try again."""

    @property
    def mig(self) -> MigNvml:
        """The same driver, for dividing cards."""

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """All cards of the machine, in any order; a lost card stays in the list as unhealthy.

        Raises DriverMissingError where there is no driver at all.
        """

    def forget_absent(self) -> None:
        """Leave out lost cards from the next reading on, if the driver does not know of them any more."""

    async def watch_events(self) -> Mapping[str, Coverage]:
        """Ask the driver afresh to report critical errors; tells by UUID for which cards it will."""

    async def wait_for_event(self) -> XidEvent | None:
        """Wait for the next critical error, a few seconds at most; None means: nothing fatal, read the cards again.

        Raises WatchLostError when the errors of all cards must be asked for afresh.
        """

    async def probe(self, uuid: str) -> None:
        """Ask one card, or one instance of a card, for its name and its memory.

        Raises CardReadError when it does not tell them.
        """

    async def read_interconnect(self, uuids: Sequence[str]) -> Interconnect:
        """How these cards are connected."""
