"""Write to the API server what Allocate depends on, and try again while the outcome is open."""

from collections.abc import Callable, Mapping

from gpuloom.kube.annotations import Annotations, change_annotations, insist, patch_pod, swap_annotations
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, ConflictError
from gpuloom.kube.resources import FULL_PODS, NODES
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
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
        await patch_pod(client, pod, body)

    await insist(patch, sleep)


async def write_grant(
    client: KubeClient, pod: FullPod, change: Callable[[Pod], Mapping[str, str]], *, sleep: Sleep
) -> FullPod:
    """Write what a grant makes of a pod's annotations, in one patch of the very version that was decided on.

    Returns the pod as it is then.

    ``change`` returns the annotations for the pod as it is. If others have changed the pod meanwhile, or the outcome is
    open, it is read again. Raises ApiError, what ``change`` raises, and AllocationError when the pod is another one or
    what was to be allocated is not there any more: then nothing was written.
    """

    def change_again(present: FullPod) -> Annotations:
        wanted = change(present)
        if present.metadata.uid != pod.metadata.uid:
            raise AllocationError(f"pod {pod.full_name} is another one by now, its UID is {present.metadata.uid}")
        if all(present.annotations.get(key) == value for key, value in wanted.items()):
            # The reply of our own write was lost.
            return {}
        key = keys.DEVICES_TO_ALLOCATE
        if present.annotations.get(key) != pod.annotations.get(key):
            raise AllocationError(f"what pod {pod.full_name} was to be given has been changed meanwhile ({key})")
        return wanted

    try:
        return await swap_annotations(client, FULL_PODS, pod, change(pod))
    except ApiError as error:
        if not (error.outcome_unknown or isinstance(error, ConflictError)):
            raise
        return await change_annotations(client, FULL_PODS, pod.name, change_again, namespace=pod.namespace, sleep=sleep)


async def release_lock(client: KubeClient, node_name: str, lock: NodeLock, *, sleep: Sleep) -> None:
    """Remove the node's lock if it is this one; leave another alone, also a later one for a pod of the same name.

    Raises ApiError when the API server does not do it in time.
    """

    def release(node: Node) -> Annotations:
        return {keys.NODE_LOCK: None} if _is_locked_by(node, lock) else {}

    await change_annotations(client, NODES, node_name, release, sleep=sleep)


def _is_locked_by(node: Node, lock: NodeLock) -> bool:
    try:
        return read_lock(node) == lock
    except WireError:
        return False
