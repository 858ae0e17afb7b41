"""Write to the API server what Allocate depends on, and try again while the outcome is open."""

from collections.abc import Callable, Mapping

from gpuloom.kube.annotations import Annotations, change_annotations, insist, patch_same
from gpuloom.kube.client import KubeClient
from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import NodeLock, decode_lock
from gpuloom.wire.objects import Node, Pod


def read_lock(node: Node) -> NodeLock | None:
    """Return the lock of a node, None without one or when it names no pod (HAMi before 2.4.1).

    Raises WireError when the annotation cannot be read.
    """
    text = node.annotations.get(keys.NODE_LOCK)
    if not text:
        return None
    lock = decode_lock(text)
    return lock if lock.name else None


async def patch_pod_annotations(client: KubeClient, pod: Pod, annotations: Mapping[str, str], *, sleep: Sleep) -> None:
    """Set annotations of a pod. A repeated write does no harm, so a write with an open outcome is tried again.

    Raises ApiError; another pod of the same name is left alone (422).
    """
    body = {"metadata": {"annotations": dict(annotations)}}

    async def patch() -> None:
        await patch_same(client, PODS, pod, body)

    await insist(patch, sleep)


async def rewrite_pod_annotation(
    client: KubeClient, pod: Pod, key: str, rewrite: Callable[[Pod], str], *, sleep: Sleep
) -> None:
    """Replace an annotation of a pod by what `rewrite` makes of the current pod, whoever else writes meanwhile.

    Raises ApiError, AllocationError for another pod of the same name, and what `rewrite` raises.
    """

    def change(present: Pod) -> Annotations:
        if present.metadata.uid != pod.metadata.uid:
            raise AllocationError(f"pod {pod.full_name} is another one by now, its UID is {present.metadata.uid}")
        return {key: rewrite(present)}

    await change_annotations(client, PODS, pod.name, change, namespace=pod.namespace, sleep=sleep)


async def release_lock(client: KubeClient, node_name: str, pod: Pod, *, sleep: Sleep) -> None:
    """Remove the node's lock if this pod holds it; leave another pod's lock alone.

    Raises ApiError when the API server does not do it in time.
    """

    def release(node: Node) -> Annotations:
        return {keys.NODE_LOCK: None} if _is_held_by(node, pod) else {}

    await change_annotations(client, NODES, node_name, release, sleep=sleep)


def _is_held_by(node: Node, pod: Pod) -> bool:
    try:
        lock = read_lock(node)
    except WireError:
        return False
    return lock is not None and lock.is_held_by(pod.namespace, pod.name)
