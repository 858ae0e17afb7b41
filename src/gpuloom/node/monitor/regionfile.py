"""Region files on disk, in directories that containers may write to.

They are read with ``pread`` and written with ``pwrite``, never mapped: a container that shortens a mapped file would
kill this process with SIGBUS. Links are not followed. A name is first looked up without opening it, and then exactly
that file is opened: a container may have put a device there, which starts to work when it is opened, and may replace it
at any time (trust T-06).
"""

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.layouts import LAYOUTS, Layout, choose_layout
from gpuloom.node.monitor.region import Region, Slots, are_settled, decode_counters, decode_region, decode_slots

_TRIES = 3
_TAIL_BYTES = 24
_LONGEST_HEAD_BYTES = max(layout.slots for layout in LAYOUTS)
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC
"""A container may hold a lease on its file, for which opening would wait."""

_SIGNAL = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class RegionFile:
    """A file as it was read: ``identity`` is its device and inode."""

    path: str
    identity: tuple[int, int]
    region: Region


@dataclass(frozen=True, slots=True)
class Signals:
    """What the monitor tells HAMi-core through a region; None leaves a field as it is."""

    recent: int | None = None
    switch: int | None = None


def read_region_file(path: str) -> RegionFile:
    """Return a region.

    Raises RegionError when the file cannot be read, or is no known region.
    """
    with _open(path, os.O_RDONLY) as (descriptor, status):
        region = _read(descriptor, status.st_size)
    return RegionFile(path, _identify(status), region)


def write_signals(file: RegionFile, signals: Signals) -> None:
    """Write to the file that was read, if it is still the same file.

    Raises RegionError.
    """
    layout = file.region.layout
    with _open(file.path, os.O_WRONLY) as (descriptor, status):
        if _identify(status) != file.identity or status.st_size < layout.size:
            raise RegionError("was replaced or shortened since it was read")
        try:
            for offset, value in ((layout.recent, signals.recent), (layout.switch, signals.switch)):
                if value is not None:
                    os.pwrite(descriptor, _SIGNAL.pack(value), offset)
        except OSError as error:
            raise RegionError(f"cannot be written: {error.strerror}") from error


@contextmanager
def _open(path: str, how: int) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file with only one name."""
    with ExitStack() as stack:
        try:
            folder, name = os.path.split(path)
            inside = _keep(stack, os.open(folder, _LOOK | os.O_DIRECTORY))
            found = _keep(stack, os.open(name, _LOOK, dir_fd=inside))
            status = os.fstat(found)
            _check(status)
            descriptor = _keep(stack, os.open(f"/proc/self/fd/{found}", how | _SAFELY))
        except OSError as error:
            raise RegionError(f"cannot be opened: {error.strerror}") from error
        yield descriptor, status


def _keep(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RegionError("is not a regular file")
    if status.st_nlink != 1:
        raise RegionError(f"has {status.st_nlink} names, a region has one")


def _identify(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _read(descriptor: int, size: int) -> Region:
    head = _pread(descriptor, min(_LONGEST_HEAD_BYTES, size), 0)
    layout = choose_layout(size, head)
    tail = _pread(descriptor, min(_TAIL_BYTES, layout.size - layout.counters), layout.counters)
    count = decode_counters(tail).slot_count
    slots, is_settled = _read_settled(descriptor, layout, count)
    return decode_region(layout, head, slots, tail, is_settled=is_settled)


def _read_settled(descriptor: int, layout: Layout, count: int) -> tuple[Slots, bool]:
    """Return the slots, read while nobody writes to them, or after a few tries as they are."""
    before = _read_slots(descriptor, layout, count)
    if layout.sequence is None or not count:
        return before, True
    slots = _read_slots(descriptor, layout, count)
    for _ in range(_TRIES):
        after = _read_slots(descriptor, layout, count)
        if are_settled(before, slots, after):
            return slots, True
        before, slots = slots, after
    return slots, False


def _read_slots(descriptor: int, layout: Layout, count: int) -> Slots:
    return decode_slots(layout, _pread(descriptor, count * layout.slot_size, layout.slots))


def _pread(descriptor: int, length: int, offset: int) -> bytes:
    try:
        data = os.pread(descriptor, length, offset)
    except OSError as error:
        raise RegionError(f"cannot be read: {error.strerror}") from error
    if len(data) < length:
        raise RegionError(f"ends after {offset + len(data)} bytes while it is read")
    return data
