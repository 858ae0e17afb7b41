"""What a container of a program sees of this machine's files: its programs and libraries, which it cannot change.

No image is needed. Each folder gets what is written to it, such as the places of mounts, in a folder above it that
goes with the container (overlay).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuloom.local.selftest.comparing import PRELOAD
from gpuloom.node.response import Mount

_TOPS = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr")
_NOTHING = "/dev/null"


@dataclass(frozen=True, slots=True)
class Rootfs:
    """A container's file system: its root, what is mounted into it (OCI), and the Python in it."""

    root: Path
    mounts: Sequence[Mapping[str, Any]]
    python: str


def make_rootfs(directory: Path, machine: Path = Path("/")) -> Rootfs:
    """Make a file system in `directory` from the folders of `machine`, with Python's.

    Raises OSError.
    """
    root = directory / "rootfs"
    root.mkdir(parents=True)
    mounts = []
    for top in map(machine.joinpath, _TOPS):
        if top.is_symlink():
            (root / top.name).symlink_to(top.readlink())
        elif top.is_dir():
            mounts.append(_lay_over(top, directory / "written" / top.name))
    home = Path(sys.base_prefix).resolve()
    if not _is_seen(home):
        mounts.append(_bind(str(home), str(home), read_only=True))
    return Rootfs(root, mounts, str(Path(sys.executable).resolve()))


def mount_all(mounts: Iterable[Mount], *, is_loaded: bool) -> Sequence[Mapping[str, Any]]:
    """Return what a container is given, as it is mounted (OCI).

    Programs load the limiter only if it `is_loaded`: otherwise the file that names it is empty.
    """
    return [
        _bind(
            mount.host_path if is_loaded or mount.container_path != PRELOAD else _NOTHING,
            mount.container_path,
            read_only=mount.read_only,
        )
        for mount in mounts
    ]


def _lay_over(lower: Path, written: Path) -> Mapping[str, Any]:
    upper, work = written / "upper", written / "work"
    upper.mkdir(parents=True)
    work.mkdir()
    options = [f"lowerdir={lower}", f"upperdir={upper}", f"workdir={work}"]
    return {"destination": f"/{lower.name}", "type": "overlay", "source": "overlay", "options": options}


def _bind(source: str, target: str, *, read_only: bool) -> Mapping[str, Any]:
    options = ["rbind", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _is_seen(path: Path) -> bool:
    """Tell whether a path is in a folder that is laid over: what is mounted below such a folder is not."""
    top = Path("/", *path.parts[1:2])
    return top.name in _TOPS and not top.is_symlink() and top.stat().st_dev == path.stat().st_dev
