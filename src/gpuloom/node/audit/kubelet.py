"""The kubelet's list of devices for the audit: how many devices each container has."""

from collections.abc import Mapping
from pathlib import Path

from gpuloom.node.audit.truths import ContainerName
from gpuloom.node.kubeletbook import read_book


async def read_held(socket: Path, resource_name: str) -> Mapping[ContainerName, int]:
    """Count the devices of a resource by container; containers without any are left out.

    Raises KubeletError when the kubelet does not answer.
    """
    return {
        (pod.namespace, pod.name, container): len(ids)
        for pod in await read_book(socket, resource_name)
        for container, ids in pod.devices.items()
        if ids
    }
