"""What the plugin does to the host's file system: files are looked up, the limiter's directories are made."""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from gpuloom.node.errors import NodeError
from gpuloom.node.response import HostFacts
from gpuloom.node.settings import InjectionSettings, NodeSettings
from gpuloom.node.visibility import CONTROL_FILES

_OPEN_TO_ALL = 0o777
_NUMBER = re.compile(r"\d+", re.ASCII)
_VERSIONED = re.compile(r"libvgpu\.so\.v?\d[\w.+-]*", re.ASCII)


def check_library(settings: NodeSettings) -> None:
    """Make sure that containers can be limited at all.

    Raises NodeError when the limiter's library is not there.
    """
    library = settings.on_this_side(find_library(settings))
    if not library.is_file():
        raise NodeError(
            f"the limiter's library {library} is missing: install HAMi-core there, or set the hook path to where it is"
        )


def find_library(settings: NodeSettings) -> str:
    """Name the limiter's library on the host: the highest ``libvgpu.so.<version>`` if there is one."""
    plain = settings.on_this_side(settings.library)
    names = (path.name for path in plain.parent.glob(f"{plain.name}.*"))
    versioned = [name for name in names if _VERSIONED.fullmatch(name)]
    return f"{settings.hook_dir}/{max(versioned, key=_version)}" if versioned else settings.library


def look_up(settings: NodeSettings) -> HostFacts:
    """Look up what containers must get of the host's files."""
    dev_root = _find_dev_root(settings)
    return HostFacts(
        library=find_library(settings),
        has_license=settings.on_this_side(f"{settings.hook_dir}/license").exists(),
        control_files=tuple(path for path in CONTROL_FILES if (dev_root / path.lstrip("/")).exists()),
    )


def _find_dev_root(settings: NodeSettings) -> Path:
    """Find where this process sees the driver's device files: with the driver itself, where that is mounted."""
    injection = settings.injection
    if injection.dev_root == injection.driver_root and (driver_root := find_driver_root(injection)):
        return driver_root
    return settings.on_this_side(injection.dev_root)


def find_driver_root(injection: InjectionSettings) -> Path | None:
    """Find where this process sees the nodes' driver, None where it sees the host's own file system."""
    mounted = Path(injection.driver_root_here)
    return mounted if mounted.is_dir() else None


def prepare_directories(cache_dirs: Iterable[str], settings: NodeSettings) -> None:
    """Make the containers' directories afresh, and the node's lock directory if need be.

    Raises OSError.
    """
    for cache_dir in cache_dirs:
        directory = settings.on_this_side(cache_dir)
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
        directory.chmod(_OPEN_TO_ALL)
    make_lock_directory(settings)


def make_lock_directory(settings: NodeSettings) -> None:
    """Make sure that the node has its lock directory, open to all containers.

    Raises OSError.
    """
    lock_dir = settings.on_this_side(settings.lock_dir)
    lock_dir.mkdir(parents=True, exist_ok=True)
    lock_dir.chmod(_OPEN_TO_ALL)


def _version(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(map(int, _NUMBER.findall(name))), name
