"""The kubelet's answer to who holds which devices: ``v1.PodResourcesLister`` on a socket beside the plugins'."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from gpuloom.local.kubelet.pods import PodWorker
from gpuloom.node.api import podresources_pb2 as api
from gpuloom.node.api.podresources_pb2_grpc import add_PodResourcesListerServicer_to_server
from gpuloom.node.sockets import check_socket_path
from gpuloom.wire.fullpods import FullContainer, FullPod


class _Lister:
    def __init__(self, pods: PodWorker) -> None:
        self._pods = pods

    async def List(  # noqa: N802 - the protocol's name
        self, request: api.ListPodResourcesRequest, context: grpc.aio.ServicerContext
    ) -> api.ListPodResourcesResponse:
        """List the pods that the kubelet knows and did not refuse, from before it asks for their devices on.

        As with a real one, init containers that end are not in it.
        """
        del request, context
        return api.ListPodResourcesResponse(
            pod_resources=[
                api.PodResources(namespace=pod.namespace, name=pod.name, containers=self._list_containers(pod))
                for pod in self._pods.known
            ]
        )

    def _list_containers(self, pod: FullPod) -> list[api.ContainerResources]:
        listed = [container for container in pod.init_containers if container.is_sidecar] + pod.containers
        return [api.ContainerResources(name=one.name, devices=self._list_devices(pod, one)) for one in listed]

    def _list_devices(self, pod: FullPod, container: FullContainer) -> list[api.ContainerDevices]:
        devices = self._pods.devices.get((pod.namespace, pod.name, container.name), {})
        return [api.ContainerDevices(resource_name=name, device_ids=ids) for name, ids in devices.items()]


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
