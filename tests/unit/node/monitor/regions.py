"""Region files built byte by byte, from offsets written down here a second time (device plugin 15.2)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from gpuloom.wire.fullpods import FullPod

MAGIC = 19920718
FORMS = {
    "0": SimpleNamespace(
        size=1197896, major=0, minor=0, count=48, uuids=56, limits=1592, slots=1848, slot=1168, slot_count=1197880,
        switch=1197884, recent=1197888, priority=1197892, last=None, used=8, used_step=40, util=776, util_step=24,
        status=1160, sequence=None,
    ),
    "1.1": SimpleNamespace(
        size=2008952, major=1, minor=1, count=56, uuids=64, limits=1600, slots=1856, slot=1960, slot_count=2008896,
        switch=2008900, recent=2008904, priority=2008908, last=2008912, used=8, used_step=64, util=1160, util_step=48,
        status=1928, sequence=None,
    ),
    "1.2": SimpleNamespace(
        size=2008952, major=1, minor=2, count=56, uuids=64, limits=1600, slots=1856, slot=1960, slot_count=2008896,
        switch=2008900, recent=2008904, priority=2008908, last=2008912, used=8, used_step=64, util=1160, util_step=48,
        status=1928, sequence=1936,
    ),
    "1.1 shifted": SimpleNamespace(
        size=2008984, major=1, minor=1, count=88, uuids=96, limits=1632, slots=1888, slot=1960, slot_count=2008928,
        switch=2008932, recent=2008936, priority=2008940, last=2008944, used=16, used_step=64, util=1168, util_step=48,
        status=1936, sequence=8,
    ),
}  # fmt: skip


@dataclass
class Process:
    """A slot: of each card of the container context, module, data, offset, total in bytes, and SM per cent."""

    used: Sequence[tuple[int, int, int, int, int]] = ((1, 2, 3, 4, 10),)
    sm: Sequence[int] = (7,)
    status: int = 1
    sequence: int = 2


@dataclass
class Content:
    """What a region says."""

    uuids: Sequence[bytes] = (b"GPU-1afede84-4e70-2174-49af-f07ebb94d1ae",)
    limits: Sequence[int] = (20_000 * 2**20,)
    processes: Sequence[Process] = field(default_factory=lambda: (Process(),))
    switch: int = 1
    recent: int = 2
    priority: int = 1
    last: int = 1_700_000_000
    device_count: int | None = None
    slot_count: int | None = None


def build(form: str, content: Content) -> bytearray:
    """A whole file, one byte longer than the structure as HAMi-core makes it."""
    at = FORMS[form]
    data = bytearray(at.size + 1)
    struct.pack_into("<i", data, 0, MAGIC)
    if at.major:
        struct.pack_into("<II", data, 4, at.major, at.minor)
    count = len(content.uuids) if content.device_count is None else content.device_count
    struct.pack_into("<Q", data, at.count, count)
    for place, uuid in enumerate(content.uuids):
        data[at.uuids + 96 * place : at.uuids + 96 * place + len(uuid)] = uuid
    for place, limit in enumerate(content.limits):
        struct.pack_into("<Q", data, at.limits + 8 * place, limit)
    for place, process in enumerate(content.processes):
        _put_process(data, at, at.slots + at.slot * place, process)
    slot_count = len(content.processes) if content.slot_count is None else content.slot_count
    for offset, value in (
        (at.slot_count, slot_count),
        (at.switch, content.switch),
        (at.recent, content.recent),
        (at.priority, content.priority),
    ):
        struct.pack_into("<i", data, offset, value)
    if at.last is not None:
        struct.pack_into("<Q", data, at.last, content.last)
    return data


def _put_process(data: bytearray, at: SimpleNamespace, start: int, process: Process) -> None:
    for card, numbers in enumerate(process.used):
        struct.pack_into("<5Q", data, start + at.used + at.used_step * card, *numbers)
    for card, sm in enumerate(process.sm):
        struct.pack_into("<Q", data, start + at.util + at.util_step * card + 16, sm)
    struct.pack_into("<i", data, start + at.status, process.status)
    if at.sequence is not None:
        struct.pack_into("<Q", data, start + at.sequence, process.sequence)


def read_word(path: Path, offset: int) -> int:
    """One i32 of a file."""
    value: int = struct.unpack_from("<i", path.read_bytes(), offset)[0]
    return value


def put(root: Path, pod_uid: str, container: str, content: Content, *, form: str = "1.2") -> Path:
    """A container's directory with its region."""
    directory = root / f"{pod_uid}_{container}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "d8e4.cache"
    path.write_bytes(build(form, content))
    return path


def make_pod(
    uid: str,
    name: str = "p",
    *,
    cards: Sequence[str] = ("GPU-1afede84-4e70-2174-49af-f07ebb94d1ae",),
    priority: int | None = None,
    containers: Sequence[str] = ("c",),
    init: Sequence[str] = (),
    allocated: str | None = None,
    phase: str = "Running",
    ended: Sequence[str] = (),
) -> FullPod:
    """A pod each of whose containers has 1000 MiB of these cards, unless its annotation is given."""
    limits = {} if priority is None else {"nvidia.com/priority": str(priority)}
    shares = "".join(f"{card},NVIDIA,1000,30:" for card in cards) + ";"
    text = shares * (len(init) + len(containers)) if allocated is None else allocated
    body = {
        "metadata": {
            "uid": uid,
            "namespace": "ns",
            "name": name,
            "annotations": {"hami.io/vgpu-devices-allocated": text},
        },
        "spec": {
            "containers": [{"name": each, "resources": {"limits": limits}} for each in containers],
            "initContainers": [{"name": each, "resources": {"limits": limits}} for each in init],
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": [_tell_state(each, ended) for each in init],
            "containerStatuses": [_tell_state(each, ended) for each in containers],
        },
    }
    return msgspec.convert(body, FullPod)


def _tell_state(name: str, ended: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": 137}} if name in ended else {"running": {}}}
