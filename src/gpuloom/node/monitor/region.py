"""From a region's bytes to what they say. Pure: the bytes come from a container and are never trusted.

Wrong bytes yield wrong figures of that container, or a RegionError, and nothing else. Its cards' ids, limits and
priority are what the container says; what it has is in :mod:`gpuloom.node.monitor.allotments`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.layouts import LAYOUTS, MOST_DEVICES, MOST_SLOTS, SM_FIELD, USED_FIELDS, Layout

_UUID_STRIDE = 96
UUID_SHOWN = 40
"""How many characters of a card's UUID are in metrics, as in HAMi."""

_COUNT = struct.Struct("<Q")
_LIMITS = struct.Struct(f"<{MOST_DEVICES}Q")
_COUNTERS = struct.Struct("<iiii")
_LAST_KERNEL = struct.Struct("<Q")
_MOST_BYTES = 2**50
_MOST_PERCENT = 100
_SLOT_TYPES: Mapping[str, "np.dtype[Any]"] = MappingProxyType(
    {layout.name: layout.make_slot_type() for layout in LAYOUTS}
)

Slots = npt.NDArray[Any]
"""Process slots as a structured array."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one container uses of one of its cards, ``index`` as the container counts them; memory in bytes.

    ``total`` is what HAMi-core counts as used, ``utilization_percent`` the sum over the container's processes. Of one
    process, at most a PiB and 100 % count.
    """

    index: int
    uuid: str
    limit_bytes: int
    context_bytes: int
    module_bytes: int
    data_bytes: int
    offset_bytes: int
    total_bytes: int
    utilization_percent: int


@dataclass(frozen=True, slots=True)
class Counters:
    """The four words behind the slots; ``slot_count`` is between 0 and 1024 here whatever the file says."""

    slot_count: int
    switch: int
    recent: int
    priority: int


@dataclass(frozen=True, slots=True)
class Region:
    """What a region said at one moment; ``last_kernel_s`` is Unix time, 0 for never or not told.

    ``is_settled`` is False when a process was writing during every try, or died while it wrote.
    """

    layout: Layout
    devices: tuple[DeviceUse, ...]
    counters: Counters
    last_kernel_s: int
    is_settled: bool = True

    @property
    def uuids(self) -> tuple[str, ...]:
        """The cards that the region names."""
        return tuple(device.uuid for device in self.devices)


def decode_counters(tail: bytes) -> Counters:
    """Return the words behind the slots; `tail` is the region from its layout's ``counters`` on.

    Raises RegionError when it is too short.
    """
    if len(tail) < _COUNTERS.size:
        raise RegionError("ends before its counters")
    slot_count, switch, recent, priority = _COUNTERS.unpack_from(tail)
    return Counters(min(max(slot_count, 0), MOST_SLOTS), switch, recent, priority)


def decode_slots(layout: Layout, slots: bytes) -> Slots:
    """Return process slots; `slots` is cut to whole ones."""
    return np.frombuffer(slots, _SLOT_TYPES[layout.name], len(slots) // layout.slot_size)


def are_settled(before: Slots, slots: Slots, after: Slots) -> bool:
    """Whether nobody wrote to the slots between two readings of their sequence counters."""
    live = slots["status"] != 0
    sequences = slots["sequence"][live]
    return bool(
        not (sequences & 1).any()
        and np.array_equal(before["sequence"][live], sequences)
        and np.array_equal(after["sequence"][live], sequences)
    )


def decode_region(layout: Layout, head: bytes, slots: Slots, tail: bytes, *, is_settled: bool = True) -> Region:
    """Return a region: `head` is what comes before the slots, `tail` what comes after them.

    Raises RegionError when one of them is too short.
    """
    if len(head) < layout.slots:
        raise RegionError("ends before its slots")
    counters = decode_counters(tail)
    return Region(
        layout, _decode_devices(layout, head, slots), counters, _decode_last_kernel(layout, tail), is_settled=is_settled
    )


def _decode_devices(layout: Layout, head: bytes, slots: Slots) -> tuple[DeviceUse, ...]:
    count = min(_COUNT.unpack_from(head, layout.device_count)[0], MOST_DEVICES)
    limits = _LIMITS.unpack_from(head, layout.memory_limits)
    live = slots[slots["status"] != 0]
    used = np.minimum(live["used"][:, :count, :USED_FIELDS], _MOST_BYTES).sum(axis=0).tolist()
    utilization = np.minimum(live["utilization"][:, :count, SM_FIELD], _MOST_PERCENT).sum(axis=0).tolist()
    devices = []
    for index in range(count):
        if uuid := _decode_uuid(layout, head, index):
            context, module, data, offset, total = used[index]
            sm = utilization[index]
            devices.append(DeviceUse(index, uuid, limits[index], context, module, data, offset, total, sm))
    return tuple(devices)


def _decode_uuid(layout: Layout, head: bytes, index: int) -> str:
    """Return a card's UUID, empty if there is none that can be shown."""
    start = layout.uuids + index * _UUID_STRIDE
    try:
        text = head[start : start + UUID_SHOWN].partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def _decode_last_kernel(layout: Layout, tail: bytes) -> int:
    if layout.last_kernel is None:
        return 0
    offset = layout.last_kernel - layout.counters
    if len(tail) < offset + _LAST_KERNEL.size:
        raise RegionError("ends before the time of its last kernel")
    last_kernel_s: int = _LAST_KERNEL.unpack_from(tail, offset)[0]
    return last_kernel_s
