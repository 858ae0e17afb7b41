"""The kubelet's answer to who holds which devices: ``v1.PodResourcesLister`` on a socket beside the plugins'."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from gpuloom.local.kubelet.pods import PodWorker
from gpuloom.node.api import podresources_pb2 as api
from gpuloom.node.api.podresources_pb2_grpc import add_PodResourcesListerServicer_to_server
from gpuloom.node.server import check_socket_path


class _Lister:
    def __init__(self, pods: PodWorker) -> None:
        self._pods = pods

    async def List(  # noqa: N802 - the protocol's name
        self, request: api.ListPodResourcesRequest, context: grpc.aio.ServicerContext
    ) -> api.ListPodResourcesResponse:
        """List the containers of the present pods with their devices."""
        del request, context
        pods: dict[tuple[str, str], list[api.ContainerResources]] = {}
        for (namespace, pod, container), devices in self._pods.devices.items():
            given = [api.ContainerDevices(resource_name=name, device_ids=ids) for name, ids in devices.items()]
            pods.setdefault((namespace, pod), []).append(api.ContainerResources(name=container, devices=given))
        return api.ListPodResourcesResponse(
            pod_resources=[
                api.PodResources(namespace=namespace, name=name, containers=containers)
                for (namespace, name), containers in pods.items()
            ]
        )


@asynccontextmanager
async def serve_pod_resources(plugins_dir: Path, pods: PodWorker) -> AsyncIterator[None]:
    """Answer on ``pod-resources/kubelet.sock`` beside the folder of the plugins' sockets, inside the block.

    Raises KubeletError when its path is too long for a socket.
    """
    path = plugins_dir.parent / "pod-resources" / "kubelet.sock"
    check_socket_path(path)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    server = grpc.aio.server()
    add_PodResourcesListerServicer_to_server(_Lister(pods), server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        path.unlink(missing_ok=True)
