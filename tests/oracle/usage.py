"""Node usage: what the counted pods have taken of every card of a node (scheduler 4.3)."""

from collections.abc import Iterable

from oracle import geometries, profiles
from oracle.arithmetic import usage_of
from oracle.device import NodeUsage, find_device, idle_usage
from oracle.records import AllocatedDevice, CountedPod, RegisteredCard
from oracle.settings import Settings


def group_by_node(pods: Iterable[CountedPod]) -> dict[str, list[CountedPod]]:
    """Return the counted pods of each node."""
    grouped: dict[str, list[CountedPod]] = {}
    for pod in pods:
        grouped.setdefault(pod.node, []).append(pod)
    return grouped


def node_usage(cards: Iterable[RegisteredCard], pods: Iterable[CountedPod], settings: Settings) -> NodeUsage:
    """Return the snapshot of a node with the counted pods on it, in order of pod UID (4.3 steps 2 and 3)."""
    node = idle_usage(cards)
    for pod in sorted(pods, key=lambda pod: pod.pod.metadata.uid):
        for device in usage_of(pod):
            _count(node, device, settings)
        entries = [device for container in pod.devices for device in container]
        profiles.apply_pod(node, entries, pod.mig_allocations)
    return node


def _count(node: NodeUsage, allocated: AllocatedDevice, settings: Settings) -> None:
    device = find_device(node, allocated.uuid)
    if device is None:
        return
    device.used += max(allocated.slots, 1)
    device.usedmem += allocated.usedmem
    device.usedcores += allocated.usedcores
    geometries.apply_entry(device, allocated.uuid, settings)
