"""What is known of a machine, as values. Who collects them does not judge, who judges does not look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gpuloom.doctor.checks import Unseen
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings


@dataclass(frozen=True, slots=True)
class DriverFailure:
    """The driver does not tell its cards; ``is_missing`` says that it does not answer at all."""

    text: str
    is_missing: bool


class SocketState(Enum):
    """What is at the path of a socket."""

    MISSING = "is not there"
    OTHER = "is no socket"
    CLOSED = "is refused by"
    HIDDEN = "may not be used by this account"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class Handler:
    """A way to run containers that a runtime knows; ``binary`` is empty where the configuration does not say.

    ``annotations`` are patterns of those of a container that containerd passes on; None for other runtimes.
    """

    name: str
    binary: str = ""
    exists: bool = True
    annotations: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """How containerd, CRI-O or Docker is configured; ``error`` says why the file cannot be read.

    ``has_cdi`` is None where neither the configuration nor what is known of the version tells. ``containerd`` is
    containerd's major version, 0 where it cannot be told; None for other runtimes.
    """

    path: str
    default: str = ""
    handlers: Sequence[Handler] = ()
    has_cdi: bool | None = None
    containerd: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PluginProcess:
    """A process that looks like a device plugin for NVIDIA cards."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class Library:
    """The limiter's library and the list by which containers load it.

    ``kind`` is the machine type that the file is made for, empty when it is no shared library at all. ``preload`` is
    None without the file.
    """

    path: str
    exists: bool
    kind: str = ""
    preload: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """One CDI specification; ``error`` says why it cannot be read."""

    path: str
    kind: str = ""
    devices: frozenset[str] = frozenset()
    error: str = ""


@dataclass(frozen=True, slots=True)
class CdiFacts:
    """What container runtimes find of CDI, and what writes it."""

    specs: Sequence[CdiSpec] = ()
    has_tool: bool = True
    has_hook: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Everything about one machine.

    machine         its hardware's name, as uname tells
    settings        of the device plugin, or why they cannot be made
    node_entry      why the node's own configuration cannot be used, empty when it can
    runtime_class   what the device configuration gives pods with cards, empty when nothing
    is_simulated    whether the cards are
    kernel_driver   version of the driver in the kernel, empty when none is loaded
    device_files    files below /dev that the driver made
    registered      ids that the kubelet was offered, by resource
    lock_dir_mode   permissions of HAMi-core's folder of locks, None when it is not there
    """

    machine: str
    settings: NodeSettings
    settings_error: str | Unseen = ""
    node_entry_error: str | Unseen = ""
    runtime_class: str | Unseen = ""
    is_simulated: bool = False
    kernel_driver: str = ""
    cards: tuple[Gpu, ...] | DriverFailure = ()
    device_files: frozenset[str] | Unseen = frozenset()
    runtimes: Sequence[RuntimeConfig] | Unseen = ()
    kubelet: SocketState = SocketState.ANSWERS
    pod_resources: SocketState = SocketState.ANSWERS
    plugin: SocketState = SocketState.ANSWERS
    registered: Mapping[str, Sequence[str]] | Unseen = field(default_factory=dict)
    plugins: Sequence[PluginProcess] = ()
    library: Library | Unseen
    lock_dir_mode: int | None = None
    cdi: CdiFacts | Unseen = CdiFacts()
