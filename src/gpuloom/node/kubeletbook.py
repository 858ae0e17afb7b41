"""Read the kubelet's book: which pods it knows, and which devices their containers have (PodResources API)."""

from collections.abc import Sequence
from pathlib import Path

import grpc

from gpuloom.node.api import podresources_pb2 as api
from gpuloom.node.api.podresources_pb2_grpc import PodResourcesListerStub
from gpuloom.node.errors import KubeletError
from gpuloom.node.knownpods import Book, KnownPod
from gpuloom.node.sockets import dial

_DEADLINE_S = 5.0
_LARGEST_ANSWER_BYTES = 64 * 2**20


async def read_book(socket: Path, resource: str) -> Book:
    """Return which pods the kubelet knows and which devices of a resource they have.

    Raises KubeletError when it does not answer.
    """
    try:
        async with dial(socket, largest_message_bytes=_LARGEST_ANSWER_BYTES) as channel:
            answer = await PodResourcesListerStub(channel).List(api.ListPodResourcesRequest(), timeout=_DEADLINE_S)
    except grpc.aio.AioRpcError as error:
        raise KubeletError(
            f"kubelet at {socket} does not tell who holds devices: {error.details()}; let this process see the socket"
        ) from error
    return tuple(
        KnownPod(
            pod.namespace,
            pod.name,
            {container.name: _find_ids(container, resource) for container in pod.containers},
        )
        for pod in answer.pod_resources
    )


async def read_book_if_shown(socket: Path, resource: str) -> Book | None:
    """Return the book, None if the kubelet's socket is not mounted for this process.

    Raises KubeletError when the socket is there and the kubelet does not answer.
    """
    return await read_book(socket, resource) if _is_there(socket) else None


def _is_there(socket: Path) -> bool:
    return socket.exists()


def _find_ids(container: api.ContainerResources, resource: str) -> Sequence[str]:
    return [each for devices in container.devices if devices.resource_name == resource for each in devices.device_ids]
