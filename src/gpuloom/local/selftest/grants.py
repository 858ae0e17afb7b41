"""What the container of a trial pod was given, as the places of this machine have it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.response import Mount
from gpuloom.node.visibility import qualify

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    """What the container of a pod was given, and where on this machine its region is.

    ``mounts`` lead to places of this machine. ``library`` is the limiter that its programs load, None for none.
    """

    pod: str
    card: str
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cdi_devices: tuple[str, ...]
    region: Path
    library: Path | None = None


def find_card(answers: Sequence[api.ContainerAllocateResponse]) -> str:
    """Return the card that a container is shown, by a CDI name or by the variable; empty for none."""
    first = qualify("gpu", "")
    named = [name.removeprefix(first) for name in list_cdi_devices(answers) if name.startswith(first)]
    return ",".join(named or (answer.envs[_VISIBLE] for answer in answers if _VISIBLE in answer.envs))


def list_cdi_devices(answers: Iterable[api.ContainerAllocateResponse]) -> tuple[str, ...]:
    """Return the CDI names of a container."""
    return tuple(device.name for answer in answers for device in answer.cdi_devices)


def list_mounts(answers: Iterable[api.ContainerAllocateResponse], host: Path) -> tuple[Mount, ...]:
    """Return the mounts of a container, whose node has its files below `host`."""
    return tuple(
        Mount(mount.container_path, str(place_here(mount.host_path, host)), mount.read_only)
        for answer in answers
        for mount in answer.mounts
    )


def place_here(path: str, host: Path) -> Path:
    """Return where this machine has a path of a node that is below `host`."""
    return host / path.lstrip("/")
