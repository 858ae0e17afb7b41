"""The kubelet's book: how many devices each container has, as its PodResources API tells."""

from collections.abc import Mapping
from pathlib import Path

import grpc

from gpuloom.node.api import podresources_pb2 as api
from gpuloom.node.api.podresources_pb2_grpc import PodResourcesListerStub
from gpuloom.node.audit.truths import ContainerName
from gpuloom.node.errors import KubeletError
from gpuloom.node.server import dial

_DEADLINE_S = 5.0
_LARGEST_ANSWER_BYTES = 64 * 2**20


async def read_held(socket: Path, resource_name: str) -> Mapping[ContainerName, int]:
    """Count the devices of a resource by container; containers without any are left out.

    Raises KubeletError when the kubelet does not answer.
    """
    try:
        async with dial(socket, largest_message_bytes=_LARGEST_ANSWER_BYTES) as channel:
            answer = await PodResourcesListerStub(channel).List(api.ListPodResourcesRequest(), timeout=_DEADLINE_S)
    except grpc.aio.AioRpcError as error:
        raise KubeletError(
            f"kubelet at {socket} does not tell who holds devices: {error.details()}; let this process see the socket"
        ) from error
    held: dict[ContainerName, int] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            count = sum(
                len(devices.device_ids) for devices in container.devices if devices.resource_name == resource_name
            )
            if count:
                held[pod.namespace, pod.name, container.name] = count
    return held
