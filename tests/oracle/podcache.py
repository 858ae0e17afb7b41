"""Which pods are counted, as the watch and Filter tell it (scheduler 4.6, binding 2.2)."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares
from oracle.records import (
    AllocatedDevice,
    ContainerDevices,
    CountedPod,
    MigAllocation,
    Placement,
)
from oracle.settings import Settings

VGPU_NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"


class _Item(msgspec.Struct):
    """One allocation as it is written; the run-time ids come from the device plugin, all of them or none."""

    container_index: int = msgspec.field(name="containerIndex", default=0)
    device_index: int = msgspec.field(name="deviceIndex", default=0)
    gpu_uuid: str = msgspec.field(name="gpuUUID", default="")
    profile: str = ""
    placement: Placement = Placement()
    mig_uuid: str | None = msgspec.field(name="migUUID", default=None)
    gpu_instance_id: int | None = msgspec.field(name="gpuInstanceID", default=None)
    compute_instance_id: int | None = msgspec.field(name="computeInstanceID", default=None)

    @property
    def is_valid(self) -> bool:
        run_time = {bool(self.mig_uuid), self.gpu_instance_id is not None, self.compute_instance_id is not None}
        indexes_valid = self.container_index >= 0 and self.device_index >= 0
        return bool(indexes_valid and self.gpu_uuid and self.profile and self.placement.size and len(run_time) == 1)


class PodCache:
    """The counted pods by UID."""

    def __init__(self, settings: Settings) -> None:
        self.pods: dict[str, CountedPod] = {}
        self._settings = settings

    def observe(self, pod: Pod, *, added: bool) -> None:
        """Take an ADDED or MODIFIED event: the first matching row of 4.6."""
        uid = pod.metadata.uid
        if not self._concerns(pod):
            if self._ends_reservation(pod):
                self.forget(uid)
        elif pod.is_over:
            self.forget(uid)
        elif uid not in self.pods or (added and not pod.is_terminating) or self._is_bound_elsewhere(pod):
            self._add(pod)
        elif pod.is_terminating:
            self._refresh(pod)
        else:
            self._update(pod)

    def delete(self, pod: Pod) -> None:
        """Take a DELETED event."""
        if VGPU_NODE in pod.annotations or not self._settings.trust_annotations:
            self.forget(pod.metadata.uid)

    def reserve(
        self, pod: Pod, node: str, devices: Sequence[ContainerDevices], allocations: Sequence[MigAllocation]
    ) -> None:
        """Count a decision of Filter, in place of an earlier one."""
        self.pods[pod.metadata.uid] = CountedPod(pod, node, tuple(devices), tuple(allocations))

    def forget(self, uid: str) -> None:
        """Count a pod no more."""
        self.pods.pop(uid, None)

    def _concerns(self, pod: Pod) -> bool:
        """Whether the pod's annotations count: those of bound pods alone, or whoever wrote them (D-41)."""
        node = pod.annotations.get(VGPU_NODE)
        if self._settings.trust_annotations:
            return node is not None
        return bool(pod.spec.node_name) and node == pod.spec.node_name

    def _ends_reservation(self, pod: Pod) -> bool:
        """Whether a pod that is not known to be ours any more loses its reservation: over, or bound by others."""
        over = pod.is_over or pod.is_terminating or bool(pod.spec.node_name)
        return over and not self._settings.trust_annotations

    def _is_bound_elsewhere(self, pod: Pod) -> bool:
        """Whether the API shows another node than the one that was decided."""
        node = self.pods[pod.metadata.uid].node
        return not self._settings.trust_annotations and pod.spec.node_name != node

    def _add(self, pod: Pod) -> None:
        try:
            devices = read_devices(pod)
        except WireError:
            return
        known = self.pods.get(pod.metadata.uid)
        self.pods[pod.metadata.uid] = CountedPod(
            pod,
            pod.annotations[VGPU_NODE],
            devices,
            self._allocations(pod),
            init_released=known is not None and known.init_released,
        )

    def _refresh(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.pods[uid] = replace(self.pods[uid], pod=pod, mig_allocations=self._allocations(pod))

    def _update(self, pod: Pod) -> None:
        self._refresh(pod)
        if self._settings.trust_annotations and init_containers_ended(pod):
            uid = pod.metadata.uid
            self.pods[uid] = replace(self.pods[uid], init_released=True)

    def _allocations(self, pod: Pod) -> tuple[MigAllocation, ...]:
        """Return the allocation list of a pod: the annotation's, else the one that is already counted (B-24)."""
        known = self.pods.get(pod.metadata.uid)
        if MIG_ALLOCATIONS not in pod.annotations and known is not None:
            return known.mig_allocations
        return read_mig_allocations(pod.annotations.get(MIG_ALLOCATIONS, ""))


def read_devices(pod: Pod) -> tuple[ContainerDevices, ...]:
    """Read a pod's durable device list.

    Raises WireError: then the pod is not counted.
    """
    if ALLOCATED not in pod.annotations:
        return ()
    return tuple(
        tuple(AllocatedDevice(share.uuid, share.memory_mib, share.cores, type=share.vendor) for share in container)
        for container in decode_shares(pod.annotations[ALLOCATED])
    )


def read_mig_allocations(text: str) -> tuple[MigAllocation, ...]:
    """Read a MIG allocation list; an invalid one counts as missing (wire protocol 3.4)."""
    try:
        items = msgspec.json.decode(text, type=list[_Item] | None) if text else None
    except msgspec.MsgspecError:
        return ()
    places = {(item.container_index, item.device_index) for item in items or ()}
    if not items or len(places) != len(items) or not all(item.is_valid for item in items):
        return ()
    return tuple(
        MigAllocation(item.container_index, item.device_index, item.gpu_uuid, item.profile, item.placement)
        for item in items
    )


def init_containers_ended(pod: Pod) -> bool:
    """Whether every ordinary init container that has a status ended well; sidecars never end (B-36)."""
    sidecars = {container.name for container in pod.init_containers if container.is_sidecar}
    statuses = [status for status in pod.status.init_container_statuses or () if status.name not in sidecars]
    ended = [status.state.terminated if status.state else None for status in statuses]
    return bool(ended) and all(state is not None and state.exit_code == 0 for state in ended)
