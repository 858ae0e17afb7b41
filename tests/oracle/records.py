"""The internal records of the specification (scheduler 1): what is registered, requested, allocated and counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from gpuloom.wire.objects import Node, Pod, ResourceQuota

VENDOR = "NVIDIA"
PERCENTAGE_NOT_SET = 101
MIG_MODE = "mig"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an instance lies on a divided card, in slices."""

    start: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A size of instance that a card can be divided into, and where such instances may lie."""

    name: str
    memory_mib: int
    core: int
    slice_count: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class RegisteredCard:
    """A card as its node registered it; ``devmem`` in MiB, ``devcore`` in per cent."""

    id: str
    index: int = 0
    count: int = 10
    devmem: int = 0
    devcore: int = 100
    type: str = "NVIDIA A100"
    numa: int = 0
    mode: str = "hami-core"
    health: bool = True
    mig_profiles: tuple[MigProfile, ...] = ()
    pair_scores: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredNode:
    """A cached node: its cards in registration order, and the node object as the watch has it now."""

    cards: tuple[RegisteredCard, ...]
    node: Node


@dataclass(frozen=True, slots=True)
class Request:
    """What one container asks for: ``memreq`` in MiB (0 = none), ``mempct`` 101 = not set, ``coresreq`` in per cent."""

    nums: int
    memreq: int = 0
    mempct: int = PERCENTAGE_NOT_SET
    coresreq: int = 0
    type: str = VENDOR


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A share of one card; ``slots`` is at least 1 in collapsed form, in raw form 0 unless it is more than one."""

    uuid: str
    usedmem: int
    usedcores: int
    slots: int = 0
    type: str = VENDOR


@dataclass(frozen=True, slots=True)
class MigAllocation:
    """Which instance of a divided card a device entry stands for (wire protocol 3.4)."""

    container_index: int
    device_index: int
    gpu_uuid: str
    profile: str
    placement: Placement


ContainerDevices = tuple[AllocatedDevice, ...]


class ContainerKind(Enum):
    """When a container runs: before the regular ones, beside them from the start, or as one of them."""

    INIT = "init"
    SIDECAR = "sidecar"
    REGULAR = "regular"


@dataclass(frozen=True, slots=True)
class CountedPod:
    """A pod whose devices count: raw device lists per container, init containers first."""

    pod: Pod
    node: str
    devices: tuple[ContainerDevices, ...]
    mig_allocations: tuple[MigAllocation, ...] = ()
    init_released: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """All that a decision is made from: cached nodes by name, counted pods by UID, quotas by namespace and name.

    ``closed`` are cards by node that somebody may hold in a way that cannot be read.
    """

    nodes: Mapping[str, RegisteredNode]
    pods: Mapping[str, CountedPod] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], ResourceQuota] = field(default_factory=dict)
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def without(self, uid: str) -> "Cluster":
        """Return this cluster as if one pod were not counted."""
        return replace(self, pods={other: pod for other, pod in self.pods.items() if other != uid})


def container_kinds(pod: Pod) -> tuple[ContainerKind, ...]:
    """Tell for each container, init containers first, when it runs (scheduler 4.5, B-36)."""
    early = (ContainerKind.SIDECAR if container.is_sidecar else ContainerKind.INIT for container in pod.init_containers)
    return (*early, *(ContainerKind.REGULAR for _ in pod.containers))
