"""Writes to the API server that Allocate depends on, tried again while their outcome is open."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from gpuloom.kube.client import WRITE_DEADLINE_S, KubeClient
from gpuloom.kube.errors import ApiError, ConflictError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.clock import Sleep
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import NodeLock, decode_lock
from gpuloom.wire.objects import Node, Pod

_T = TypeVar("_T")
_BACKOFF_S = (0.1, 0.3, 0.9, 2.7)


def read_lock(node: Node) -> NodeLock | None:
    """Read the lock of a node; None without one, or when it names no pod (HAMi before 2.4.1).

    Raises WireError when the annotation cannot be read.
    """
    text = node.annotations.get(keys.NODE_LOCK)
    if not text:
        return None
    lock = decode_lock(text)
    return lock if lock.name else None


async def patch_pod_annotations(client: KubeClient, pod: Pod, annotations: Mapping[str, str], *, sleep: Sleep) -> None:
    """Set annotations of a pod. A repeated write does no harm, so an open outcome is simply tried again.

    Raises ApiError.
    """

    async def patch() -> None:
        await client.patch(
            PODS, pod.name, _annotations(annotations), namespace=pod.namespace, timeout_s=WRITE_DEADLINE_S
        )

    await _insist(patch, sleep)


async def rewrite_pod_annotation(
    client: KubeClient, pod: Pod, key: str, rewrite: Callable[[Pod], str], *, sleep: Sleep
) -> None:
    """Replace an annotation of a pod by what `rewrite` makes of the present pod, whoever else writes meanwhile.

    Raises ApiError, and what `rewrite` raises.
    """

    async def patch() -> None:
        present = await client.get(PODS, pod.name, namespace=pod.namespace)
        await client.patch(
            PODS,
            pod.name,
            _annotations({key: rewrite(present)}),
            namespace=pod.namespace,
            resource_version=present.metadata.resource_version,
            timeout_s=WRITE_DEADLINE_S,
        )

    await _insist(patch, sleep)


async def release_lock(client: KubeClient, node_name: str, pod: Pod, *, sleep: Sleep) -> None:
    """Remove the node's lock if this pod holds it; another pod's lock, or none, is left alone.

    Raises ApiError when the API server does not do it in time.
    """

    async def release() -> None:
        node = await client.get(NODES, node_name)
        if not _is_held_by(node, pod):
            return
        await client.patch(
            NODES,
            node_name,
            _annotations({keys.NODE_LOCK: None}),
            resource_version=node.metadata.resource_version,
            timeout_s=WRITE_DEADLINE_S,
        )

    await _insist(release, sleep)


def _is_held_by(node: Node, pod: Pod) -> bool:
    try:
        lock = read_lock(node)
    except WireError:
        return False
    return lock is not None and lock.is_held_by(pod.namespace, pod.name)


def _annotations(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations)}}


async def _insist(write: Callable[[], Awaitable[_T]], sleep: Sleep) -> _T:
    for delay_s in _BACKOFF_S:
        try:
            return await write()
        except ApiError as error:
            if not (error.outcome_unknown or isinstance(error, ConflictError)):
                raise
        await sleep(delay_s)
    return await write()
