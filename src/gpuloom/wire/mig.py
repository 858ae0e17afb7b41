"""Which MIG instance a container was given (wire protocol 3.4).

HAMi up to 2.9 says it in the UUID of the share, ``GPU-a[1-0]``; later versions in an annotation of its own, and the
share keeps the plain UUID.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from gpuloom.model.mig import MigAllocation, MigInstance, MigPlacement, MigRuntime
from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_fields, decode_list_of, encode_json
from gpuloom.wire.words import INT32_MAX, Int32, Natural32

_INSTANCE = re.compile(r"([^\[\]]*)\[(\d{1,10})-(\d{1,10})\]", re.ASCII)

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class _JsonPlacement(msgspec.Struct, frozen=True):
    start: Natural32 = 0
    size: Natural32 = 0


class _JsonAllocation(msgspec.Struct, frozen=True):
    gpu_uuid: _Name = msgspec.field(name="gpuuuid")
    profile: _Name
    placement: msgspec.Raw
    container_index: Natural32 = msgspec.field(default=0, name="containerindex")
    device_index: Natural32 = msgspec.field(default=0, name="deviceindex")
    mig_uuid: str = msgspec.field(default="", name="miguuid")
    gpu_instance_id: Int32 | None = msgspec.field(default=None, name="gpuinstanceid")
    compute_instance_id: Int32 | None = msgspec.field(default=None, name="computeinstanceid")


def decode_mig_instance(text: str) -> MigInstance:
    """Read a UUID with a suffix, ``GPU-a[geometry-position]``.

    Raises WireError when there is no such suffix or it is broken.
    """
    match = _INSTANCE.fullmatch(text)
    if match is None or max(int(match[2]), int(match[3])) > INT32_MAX:
        raise WireError(f"not a MIG instance, which looks like UUID[1-0]: {text[:80]!r}")
    return MigInstance(match[1], int(match[2]), int(match[3]))


def encode_mig_instance(instance: MigInstance) -> str:
    """Write a UUID with a suffix."""
    return f"{instance.gpu_uuid}[{instance.geometry}-{instance.position}]"


def decode_mig_allocations(text: str) -> tuple[MigAllocation, ...]:
    """Read the allocation annotation of a pod; an empty text is an empty list.

    Raises WireError when one entry is invalid or two are for the same share: then no entry may be used.
    """
    if not text:
        return ()
    try:
        allocations = tuple(map(_to_allocation, decode_list_of(text, _JsonAllocation)))
    except WireError as error:
        raise WireError(f"MIG allocation annotation cannot be read: {error}") from error
    places = [(allocation.container_index, allocation.device_index) for allocation in allocations]
    if len(set(places)) < len(places):
        raise WireError("MIG allocation annotation cannot be read: two entries are for the same share")
    return allocations


def encode_mig_allocations(allocations: Iterable[MigAllocation]) -> str:
    """Write the allocation annotation of a pod.

    Raises WireError for text that is not Unicode.
    """
    return encode_json([_to_json(allocation) for allocation in allocations])


def _to_allocation(record: _JsonAllocation) -> MigAllocation:
    placement = decode_fields(record.placement, _JsonPlacement)
    if not placement.size:
        raise WireError("placement has no size")
    return MigAllocation(
        container_index=record.container_index,
        device_index=record.device_index,
        gpu_uuid=record.gpu_uuid,
        profile=record.profile,
        placement=MigPlacement(placement.start, placement.size),
        runtime=_to_runtime(record),
    )


def _to_runtime(record: _JsonAllocation) -> MigRuntime | None:
    gpu_instance, compute_instance = record.gpu_instance_id, record.compute_instance_id
    if not record.mig_uuid and gpu_instance is None and compute_instance is None:
        return None
    if not record.mig_uuid or gpu_instance is None or compute_instance is None:
        raise WireError("migUUID, gpuInstanceID and computeInstanceID are neither all there nor all absent")
    return MigRuntime(record.mig_uuid, gpu_instance, compute_instance)


def _to_json(allocation: MigAllocation) -> dict[str, Any]:
    """Keys in HAMi's order."""
    record: dict[str, Any] = {
        "containerIndex": allocation.container_index,
        "deviceIndex": allocation.device_index,
        "gpuUUID": allocation.gpu_uuid,
        "profile": allocation.profile,
        "placement": {"start": allocation.placement.start, "size": allocation.placement.size},
    }
    if allocation.runtime is not None:
        record["migUUID"] = allocation.runtime.mig_uuid
        record["gpuInstanceID"] = allocation.runtime.gpu_instance_id
        record["computeInstanceID"] = allocation.runtime.compute_instance_id
    return record
