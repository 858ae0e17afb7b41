"""Resource quotas of a namespace: at admission and inside Fit (scheduler 2.4, 6.10)."""

from collections.abc import Callable, Sequence

from gpuloom.wire.quantity import decode_strict_integer
from oracle.arithmetic import collapse, usage_of
from oracle.records import AllocatedDevice, Cluster, ContainerKind, Request
from oracle.settings import Settings


def quota_limit(cluster: Cluster, namespace: str, name: str) -> int | None:
    """Return the smallest limit that a quota of the namespace sets for a resource, None without one (B-43)."""
    if not name:
        return None
    limits = []
    for (where, _), quota in cluster.quotas.items():
        hard = quota.spec.hard or {}
        if where == namespace and f"limits.{name}" in hard:
            limits.append(decode_strict_integer(hard[f"limits.{name}"]))
    return min((limit for limit in limits if limit is not None), default=None)


def quota_used(cluster: Cluster, namespace: str) -> tuple[int, int]:
    """Return memory in MiB and cores that the counted pods of a namespace use."""
    devices = [device for pod in cluster.pods.values() if pod.pod.namespace == namespace for device in usage_of(pod)]
    return sum(device.usedmem for device in devices), sum(device.usedcores for device in devices)


def quota_allows(cluster: Cluster, namespace: str, memory_mib: int, cores: int, settings: Settings) -> bool:
    """Test whether a demand fits beside what is used; equality fits."""
    memory_limit = quota_limit(cluster, namespace, settings.devices.memory_name)
    core_limit = quota_limit(cluster, namespace, settings.devices.core_name)
    if memory_limit is None and core_limit is None:
        return True
    used_mib, used_cores = quota_used(cluster, namespace)
    if memory_limit is not None and used_mib + memory_mib > memory_limit * settings.devices.factor:
        return False
    return core_limit is None or used_cores + cores <= core_limit


def pod_demand(devices: Sequence[Sequence[AllocatedDevice]], kinds: Sequence[ContainerKind]) -> tuple[int, int]:
    """Return memory and cores of a pod's device lists, collapsed as they will be counted (4.5, B-11)."""
    collapsed = collapse([tuple(container) for container in devices], kinds)
    return sum(device.usedmem for device in collapsed), sum(device.usedcores for device in collapsed)


def admission_allows(
    cluster: Cluster,
    namespace: str,
    requests: Sequence[tuple[ContainerKind, Request | None]],
    settings: Settings,
) -> bool:
    """Test a new pod's requests: regular containers together, init containers the largest (2.4, B-36)."""
    memory_mib = _admission_demand(requests, lambda request: request.memreq)
    cores = _admission_demand(requests, lambda request: request.coresreq)
    if memory_mib == 0 and cores == 0:
        return True
    return quota_allows(cluster, namespace, memory_mib, cores, settings)


def _admission_demand(
    requests: Sequence[tuple[ContainerKind, Request | None]], amount: Callable[[Request], int]
) -> int:
    """Return what runs at the same time at most, all cards of a request together; sidecars run all the time."""
    demands: dict[ContainerKind, list[int]] = {kind: [0] for kind in ContainerKind}
    for kind, request in requests:
        if request is not None:
            demands[kind].append(amount(request) * request.nums)
    sidecars, regular = sum(demands[ContainerKind.SIDECAR]), sum(demands[ContainerKind.REGULAR])
    return sidecars + max(*demands[ContainerKind.INIT], regular)
