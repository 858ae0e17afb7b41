"""What the plugin does to the host's file system: look up files, make the limiter's directories.

Who may do what in these directories is decision 022.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gpuloom.node.errors import NodeError
from gpuloom.node.response import HostFacts, find_lock_dir
from gpuloom.node.settings import InjectionSettings, NodeSettings
from gpuloom.node.trees import remove_tree
from gpuloom.node.visibility import CONTROL_FILES

_OPEN_TO_ALL = 0o777
_OPEN_FOR_OWN_FILES = 0o1777
_CLOSED = 0o700
_LOCK = "lock"
_STALE_S = 60.0
_PLACED = "placed-libraries"
_LONGEST_LIST_BYTES = 2**16
_NUMBER = re.compile(r"\d+", re.ASCII)
_VERSIONED = re.compile(r"libvgpu\.so\.v?(\d+(?:\.\d+)*)([+-][\w.+-]*)?", re.ASCII)


def check_library(settings: NodeSettings) -> None:
    """Check that containers can be limited at all.

    Raises NodeError when the limiter's library is not there.
    """
    library = settings.on_this_side(find_library(settings))
    if not library.is_file():
        raise NodeError(
            f"the limiter's library {library} is missing: install HAMi-core there, or set the hook path to where it is"
        )


def find_library(settings: NodeSettings) -> str:
    """Return the path of the limiter's library on the host: the highest ``libvgpu.so.<version>`` if there is one.

    Only those count that the chart's init container placed last, if it did: others are there for containers that were
    started with them.
    """
    plain = settings.on_this_side(settings.library)
    present = {path.name for path in plain.parent.glob(f"{plain.name}*")}
    names = present & _read_placed(plain.parent) or present
    versioned = [match for name in names if (match := _VERSIONED.fullmatch(name))]
    return f"{settings.hook_dir}/{max(versioned, key=_version)[0]}" if versioned else settings.library


def _read_placed(folder: Path) -> frozenset[str]:
    """Return the names of the files that the chart's init container placed last, none where it is not known."""
    try:
        with (folder / _PLACED).open("rb") as file:
            return frozenset(file.read(_LONGEST_LIST_BYTES).decode(errors="replace").splitlines())
    except OSError:
        return frozenset()


def look_up(settings: NodeSettings) -> HostFacts:
    """Return what containers must get of the host's files."""
    dev_root = _find_dev_root(settings)
    return HostFacts(
        library=find_library(settings),
        has_license=settings.on_this_side(f"{settings.hook_dir}/license").exists(),
        control_files=tuple(path for path in CONTROL_FILES if (dev_root / path.lstrip("/")).exists()),
    )


def _find_dev_root(settings: NodeSettings) -> Path:
    """Return where this process sees the driver's device files: with the driver, if that is mounted."""
    injection = settings.injection
    if injection.dev_root == injection.driver_root and (driver_root := find_driver_root(injection)):
        return driver_root
    return settings.on_this_side(injection.dev_root)


def find_driver_root(injection: InjectionSettings) -> Path | None:
    """Return where this process sees the node's driver, None if it sees the host's own file system."""
    mounted = Path(injection.driver_root_here)
    return mounted if mounted.is_dir() else None


def prepare_directories(cache_dirs: Iterable[str], settings: NodeSettings) -> None:
    """Make the containers' directories and those for their locks, empty.

    Raises OSError.
    """
    close_containers_directory(settings)
    for cache_dir in cache_dirs:
        _make_afresh(settings.on_this_side(cache_dir), _OPEN_TO_ALL)
        if not settings.node_wide_locks:
            _make_afresh(settings.on_this_side(find_lock_dir(cache_dir, settings)), _OPEN_TO_ALL)
    if settings.node_wide_locks:
        make_lock_directory(settings)


def close_containers_directory(settings: NodeSettings) -> None:
    """Make the folder of the containers' directories, closed to the host's other users; containers do not see it.

    Raises OSError.
    """
    _make(settings.on_this_side(settings.containers_dir), _CLOSED)


def make_lock_directory(settings: NodeSettings) -> None:
    """Make the node's lock directory: open to all containers, each of which can delete only its own files.

    Raises OSError.
    """
    _make(settings.on_this_side(settings.lock_dir), _OPEN_FOR_OWN_FILES)


def remove_stale_lock(settings: NodeSettings) -> None:
    """Remove the node's lock if it is a minute old and nobody holds it, since HAMi-core of other users cannot.

    Versions before HAMi 2.8.1 make the file to lock and remove it seconds later; those after lock the file itself.
    Raises OSError.
    """
    with suppress(FileNotFoundError), _enter(settings.on_this_side(settings.lock_dir)) as folder:
        status = os.stat(_LOCK, dir_fd=folder, follow_symlinks=False)
        # A lock of the future was made before the clock was put right.
        if abs(time.time() - status.st_ctime) > _STALE_S and not _is_locked(folder, status):
            os.unlink(_LOCK, dir_fd=folder)


def _is_locked(folder: int, status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode):
        return False
    try:
        descriptor = os.open(_LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        # A file that only its owner can read is of a version that locks by making it.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _make_afresh(directory: Path, mode: int) -> None:
    remove_tree(directory)
    _make(directory, mode)


def _make(directory: Path, mode: int) -> None:
    """Make a directory of this process's user with this mode, or set the mode of an existing one."""
    directory.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
    with _enter(directory) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"is a directory of user {status.st_uid}: delete it", str(directory))
        if stat.S_IMODE(status.st_mode) != mode:
            os.fchmod(descriptor, mode)


@contextmanager
def _enter(directory: Path) -> Iterator[int]:
    """Open a directory; do not follow a link in its place."""
    with ExitStack() as stack:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        yield descriptor


def _version(name: re.Match[str]) -> tuple[list[int], bool, list[int], str]:
    """Return what versions are compared by; a release comes after its candidates, ``2.10.0-rc.1``."""
    mark = name[2] or ""
    return _read_numbers(name[1]), not mark.startswith("-"), _read_numbers(mark), name[0]


def _read_numbers(text: str) -> list[int]:
    return [int(digits) for digits in _NUMBER.findall(text)]
