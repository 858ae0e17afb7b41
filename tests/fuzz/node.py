"""What a node reads: the pod that Allocate is for, and the regions that containers write to."""

import contextlib
import os
import struct
import tempfile
from collections.abc import Iterator

import msgspec
from fuzz.seeds import dump
from fuzz.target import Target

from gpuloom.node.asking_pod import AllocateCall, check_call, check_owner, choose_candidate
from gpuloom.node.errors import AllocationError
from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.layouts import LAYOUTS, MAGIC, Layout
from gpuloom.node.monitor.regionfile import Signals, read_region_file, write_signals
from gpuloom.node.nvml import Gpu
from gpuloom.node.plan import Surroundings, plan_allocation
from gpuloom.node.response import HostFacts
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.gojson import decode_json

_SETTINGS = NodeSettings(node_name="a")
_CARD = Gpu(uuid="GPU-1", index=0, name="NVIDIA A10", memory_mib=24576, pci_bus_id="")
_AROUND = Surroundings(
    settings=_SETTINGS,
    gpus={_CARD.uuid: _CARD},
    host=HostFacts("/usr/local/vgpu/libvgpu.so", has_license=False),
    make_id=lambda: "cache",
)
_REQUESTS = ((), ("GPU-1::0",), ("GPU-1::0", "GPU-1::1"))
_HEAD_BYTES = 2048
_TAIL_BYTES = 32


def _read_waiting_pod(data: bytes) -> None:
    with contextlib.suppress(WireError):
        pod = decode_json(data, FullPod)
        for ids in _REQUESTS:
            with contextlib.suppress(AllocationError):
                check_owner(pod, AllocateCall([len(ids)], [pod]), _SETTINGS)
            with contextlib.suppress(AllocationError):
                choose_candidate(AllocateCall([len(ids)], [pod]), _SETTINGS)
            with contextlib.suppress(AllocationError):
                check_call(pod, AllocateCall([len(ids)], [pod, pod]), _SETTINGS)
            with contextlib.suppress(AllocationError):
                plan_allocation(pod, [ids], _AROUND)


def _give_waiting_pods() -> Iterator[bytes]:
    for devices in ("GPU-1,NVIDIA,8000,30:;", ";GPU-1,NVIDIA,1,1:GPU-1,NVIDIA,2,2:;", ""):
        annotations = {
            "hami.io/vgpu-node": "a",
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1732072495",
            "hami.io/vgpu-devices-to-allocate": devices,
        }
        metadata = {"name": "p", "namespace": "team", "uid": "u", "annotations": annotations, "ownerReferences": None}
        container = {"name": "c", "env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]}
        spec = {"nodeName": "a", "schedulerName": "hami-scheduler", "containers": [container], "initContainers": []}
        yield dump({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "containerStatuses": []}})


def _read_region(data: bytes) -> None:
    """Put the bytes where a region has its head, its first slots and its counters, and read and answer the file.

    The first byte says how large the file is: as one of the layouts, or near it.
    """
    if not data:
        return
    choice, content = data[0], data[1:]
    layout = LAYOUTS[choice % len(LAYOUTS)]
    size = max(layout.size + (0, 0, 0, 8, -8, -layout.size + 40)[choice // 8 % 6], 0)
    with tempfile.NamedTemporaryFile(prefix="gpuloom-fuzz-") as file, contextlib.suppress(RegionError):
        file.truncate(size)
        for offset, part in _lay_out(layout, content):
            os.pwrite(file.fileno(), part[: max(size - offset, 0)], offset)
        found = read_region_file(file.name)
        msgspec.json.encode([found.region.devices, found.region.counters, found.region.uuids])
        write_signals(found, Signals(recent=-1, switch=1))


def _lay_out(layout: Layout, content: bytes) -> Iterator[tuple[int, bytes]]:
    yield 0, content[:_HEAD_BYTES]
    yield layout.counters, content[_HEAD_BYTES : _HEAD_BYTES + _TAIL_BYTES]
    yield layout.slots, content[_HEAD_BYTES + _TAIL_BYTES :]


def _give_regions() -> Iterator[bytes]:
    for number, layout in enumerate(LAYOUTS):
        head = bytearray(_HEAD_BYTES)
        struct.pack_into("<iII", head, 0, MAGIC, 1, 2 if layout.name == "1.2" else 1)
        struct.pack_into("<Q", head, layout.device_count, 1)
        head[layout.uuids : layout.uuids + 5] = b"GPU-1"
        struct.pack_into("<Q", head, layout.memory_limits, 2**30)
        tail = struct.pack("<iiiiQQ", 1, 0, 2, 1, 0, 1_777_881_600)
        slot = bytearray(layout.slot_size)
        struct.pack_into("<i", slot, layout.status, 1)
        struct.pack_into("<Q", slot, layout.used + 32, 2**20)
        yield bytes([number]) + bytes(head) + tail + bytes(slot)


TARGETS = (
    Target("allocate", _read_waiting_pod, "json", _give_waiting_pods),
    Target("region", _read_region, "bytes", _give_regions),
)
