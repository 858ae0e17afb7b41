"""The layouts of HAMi-core's shared region, as data (device plugin 15.2). Offsets are in bytes, little endian.

A region itself says which layout it has. Nothing here reads a file.
"""

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuloom.node.monitor.errors import RegionError

MAGIC = 19920718
MOST_DEVICES = 16
MOST_SLOTS = 1024
HEAD_BYTES = 12
USED_FIELDS = 5
"""Context, module, data, offset and total, in this order, at the start of each element of a slot's ``used``."""

SM_FIELD = 2
"""Where the SM utilization is in each element of a slot's ``utilization``, after decoder and encoder."""

_HEAD = struct.Struct("<iII")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in a region of one kind.

    ``counters`` is where four i32 stand: used slots, utilization switch, recent kernel, priority. ``used``,
    ``utilization``, ``status`` and ``sequence`` are offsets in a slot; the first two are 16 elements of so many u64.
    ``sequence`` is None where slots have no counter, ``last_kernel`` where the region has no such time.
    """

    name: str
    size: int
    device_count: int
    uuids: int
    memory_limits: int
    slots: int
    slot_size: int
    used: int
    used_words: int
    utilization: int
    utilization_words: int
    status: int
    counters: int
    sequence: int | None = None
    last_kernel: int | None = None

    @property
    def switch(self) -> int:
        """Where the utilization switch is."""
        return self.counters + 4

    @property
    def recent(self) -> int:
        """Where the recent kernel is."""
        return self.counters + 8

    def make_slot_type(self) -> "np.dtype[Any]":
        """Describe one slot to NumPy."""
        fields: dict[str, tuple[Any, int]] = {
            "used": (("<u8", (MOST_DEVICES, self.used_words)), self.used),
            "utilization": (("<u8", (MOST_DEVICES, self.utilization_words)), self.utilization),
            "status": ("<i4", self.status),
        }
        if self.sequence is not None:
            fields["sequence"] = ("<u8", self.sequence)
        return np.dtype(
            {
                "names": list(fields),
                "formats": [form for form, _ in fields.values()],
                "offsets": [offset for _, offset in fields.values()],
                "itemsize": self.slot_size,
            }
        )


V1_2 = Layout(
    name="1.2",
    size=2_008_952,
    device_count=56,
    uuids=64,
    memory_limits=1600,
    slots=1856,
    slot_size=1960,
    used=8,
    used_words=8,
    utilization=1160,
    utilization_words=6,
    status=1928,
    counters=2_008_896,
    sequence=1936,
    last_kernel=2_008_912,
)

V1_1 = replace(V1_2, name="1.1", sequence=None)

SHIFTED = replace(
    V1_2,
    name="1.1 shifted",
    size=2_008_984,
    device_count=88,
    uuids=96,
    memory_limits=1632,
    slots=1888,
    used=16,
    utilization=1168,
    status=1936,
    counters=2_008_928,
    sequence=8,
    last_kernel=2_008_944,
)

V0 = Layout(
    name="0",
    size=1_197_896,
    device_count=48,
    uuids=56,
    memory_limits=1592,
    slots=1848,
    slot_size=1168,
    used=8,
    used_words=5,
    utilization=776,
    utilization_words=3,
    status=1160,
    counters=1_197_880,
)

LAYOUTS = (V0, V1_1, V1_2, SHIFTED)


def choose_layout(size: int, head: bytes) -> Layout:
    """Return the layout of a file of `size` bytes, by its first 12 bytes.

    Raises RegionError for a file that is no region, or has an unknown version.
    """
    if len(head) < HEAD_BYTES:
        raise RegionError(f"has {len(head)} bytes at its start, a region has {HEAD_BYTES}")
    magic, major, minor = _HEAD.unpack_from(head)
    if magic != MAGIC:
        raise RegionError("is not initialised by HAMi-core")
    if V0.size <= size < V1_2.size:
        return V0
    if major == 1 and size >= SHIFTED.size:
        return SHIFTED
    if major == 1 and size >= V1_2.size:
        return V1_2 if minor >= 2 else V1_1
    raise RegionError(f"has version {major}.{minor} and {size} bytes, which no known HAMi-core writes")
