"""Reads the files of a machine that say something about cards. Nothing is written, nothing is judged."""

import json
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.machine.facts import CdiFacts, CdiSpec, Library
from gpuloom.node.hostfiles import find_library
from gpuloom.node.settings import NodeSettings
from gpuloom.node.visibility import CDI_VENDOR

_VERSION = re.compile(r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)")
_CHECKPOINT = "kubelet_internal_checkpoint"
_LARGEST_FILE_BYTES = 16 * 2**20
_MACHINES = {62: "x86_64", 183: "aarch64"}
_SHARED_OBJECT = 3
_HEADER_BYTES = 20


def read_kernel_driver(root: Path) -> str:
    """Return the version of NVIDIA's driver in the kernel, nothing when none is loaded."""
    try:
        found = _VERSION.search((root / "proc/driver/nvidia/version").read_text(errors="replace"))
    except OSError:
        return ""
    return found.group(1) if found else ""


def read_device_files(root: Path, dev_root: str) -> frozenset[str] | Unseen:
    """Return the device files of NVIDIA's driver, as ``/dev/...``."""
    folder = root / dev_root.strip("/") / "dev"
    try:
        return frozenset(f"/dev/{path.name}" for path in folder.glob("nvidia*"))
    except OSError as error:
        return tell_closed(error)


def read_library(settings: NodeSettings) -> Library | Unseen:
    """Look at the limiter's library and its preload list."""
    preload = settings.on_this_side(f"{settings.hook_dir}/ld.so.preload")
    try:
        name = find_library(settings)
        path = settings.on_this_side(name)
        return Library(
            name,
            exists=is_file(path),
            kind=_read_kind(path) if is_file(path) else "",
            preload=tuple(preload.read_text(errors="replace").split()) if is_file(preload) else None,
        )
    except OSError as error:
        return tell_closed(error)


def read_mode(path: Path) -> int | None:
    """Return a folder's permissions, None when it is not there."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def read_registered(settings: NodeSettings) -> Mapping[str, Sequence[str]] | Unseen:
    """Read from the kubelet's own notes which ids it was offered for each resource."""
    path = settings.plugins_dir / _CHECKPOINT
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            return Unseen(f"the kubelet's notes {path} are larger than {_LARGEST_FILE_BYTES} bytes")
        found = json.loads(path.read_bytes())["Data"]["RegisteredDevices"] or {}
        return {str(name): tuple(map(str, ids or ())) for name, ids in found.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        return Unseen(f"{path}: {error.strerror}: run the doctor as root")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Unseen(f"the kubelet's notes {path} have a form that is not known here")


def read_cdi(settings: NodeSettings) -> CdiFacts | Unseen:
    """Look at what container runtimes find of CDI."""
    injection = settings.injection
    try:
        files = sorted(settings.on_this_side(injection.cdi_dir).glob(f"{CDI_VENDOR}-*.json"))
        return CdiFacts(
            specs=tuple(_read_spec(file, f"{injection.cdi_dir}/{file.name}") for file in files),
            has_tool=shutil.which("nvidia-ctk") is not None,
            has_hook=is_file(settings.on_this_side(injection.cdi_hook_path)),
        )
    except OSError as error:
        return tell_closed(error)


def is_file(path: Path) -> bool:
    """Tell whether there is a file.

    Raises PermissionError where this account may not know, which Path.is_file does only before Python 3.14.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):  # the second of a name that no file can have
        return False


def tell_closed(error: OSError) -> Unseen:
    """Say what this account may not look at."""
    return Unseen(f"{error.filename}: {error.strerror}: run the doctor as root")


def _read_kind(path: Path) -> str:
    """Tell for which machine a shared library is made, nothing for any other file."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or header[:4] != b"\x7fELF":
        return ""
    order = "big" if header[5] == 2 else "little"
    if int.from_bytes(header[16:18], order) != _SHARED_OBJECT:  # type: ignore[arg-type]  # one of two literals
        return ""
    number = int.from_bytes(header[18:20], order)  # type: ignore[arg-type]
    return _MACHINES.get(number, f"machine type {number}")


def _read_spec(file: Path, name: str) -> CdiSpec:
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
        devices = frozenset(str(device["name"]) for device in found.get("devices") or ())
        return CdiSpec(name, str(found.get("kind", "")), devices)
    except OSError as error:
        return CdiSpec(name, error=error.strerror or "unknown failure")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return CdiSpec(name, error=f"{type(error).__name__}: {error}")
