"""A node whose containers are only told to run: registers devices, asks the device plugin, reports statuses.

What a device plugin and a scheduler see of it is what they see of a real kubelet; nothing is started anywhere.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import AlreadyExistsError, ApiError
from gpuloom.kube.resources import NODES
from gpuloom.local.kubelet.endpoints import PluginEndpoints
from gpuloom.local.kubelet.errors import AdmissionError
from gpuloom.local.kubelet.ledger import DeviceLedger
from gpuloom.local.kubelet.podresources import serve_pod_resources
from gpuloom.local.kubelet.pods import RETRY_S, ContainerKey, PodWorker, now
from gpuloom.local.kubelet.statuses import describe_node, report_node
from gpuloom.node.api import deviceplugin_pb2 as api

_log = structlog.get_logger(__name__)


class SimulatedKubelet:
    """One node's kubelet, from entering to leaving its ``async with`` block; it creates the node if need be.

    Pods are handled one after another. `plugins_dir` is where its ``kubelet.sock`` and the plugins' sockets live; who
    holds which devices is told on ``pod-resources/kubelet.sock`` beside it. Entering raises KubeletError when such a
    path is too long for a socket.
    """

    def __init__(
        self, node_name: str, client: KubeClient, plugins_dir: Path, *, labels: Mapping[str, str] | None = None
    ) -> None:
        self._node_name = node_name
        self._labels = dict(labels or {})
        self._client = client
        self._plugins_dir = plugins_dir
        self._ledger = DeviceLedger()
        self._pods = PodWorker(node_name, client, self._ledger, self)
        self._endpoints: PluginEndpoints | None = None
        self._devices_changed = asyncio.Event()
        self._stack = AsyncExitStack()
        self._loops: asyncio.Task[None] | None = None

    @property
    def node_name(self) -> str:
        """The node that this kubelet is."""
        return self._node_name

    @property
    def environments(self) -> Mapping[ContainerKey, Mapping[str, str]]:
        """The environment of every container of the present pods, by (namespace, pod, container)."""
        return self._pods.environments

    @property
    def mounts(self) -> Mapping[ContainerKey, Mapping[str, str]]:
        """What plugins had mounted into the containers of the present pods: container path to host path."""
        return self._pods.mounts

    @property
    def answers(self) -> Mapping[ContainerKey, Sequence[api.ContainerAllocateResponse]]:
        """What plugins answered for the containers of the present pods, one answer for each resource."""
        return self._pods.answers

    @property
    def allocatable(self) -> Mapping[str, int]:
        """How many devices of each resource can be given out, resource name to number, as plugins say now."""
        return self._ledger.allocatable()

    def held_by(self, pod_uid: str) -> frozenset[str]:
        """Tell the device ids that a pod holds."""
        return self._ledger.held_by(pod_uid)

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Ask a resource's device plugin for one container with these ids.

        Raises AdmissionError with the kubelet's text.
        """
        if self._endpoints is None:
            raise AdmissionError(f"Allocate failed due to endpoint {resource} is stopped, which is unexpected")
        return await self._endpoints.allocate(resource, ids)

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Ask a resource's device plugin which of the available ids it prefers; empty where it has no preference."""
        if self._endpoints is None:
            return ()
        return await self._endpoints.prefer(resource, available, required, size)

    async def __aenter__(self) -> Self:
        await self._open_endpoints()
        self._loops = asyncio.create_task(self._live(), name=f"kubelet of {self._node_name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loops, self._loops = self._loops, None
        if loops is None:
            return
        loops.cancel()
        await asyncio.wait({loops})
        await self._stack.aclose()
        if not loops.cancelled() and (failure := loops.exception()):
            raise failure

    async def restart(self) -> None:
        """Be a new kubelet: all sockets are gone, a new ``kubelet.sock`` waits for plugins; pods keep their devices."""
        await self._stack.aclose()
        await self._open_endpoints()

    async def _open_endpoints(self) -> None:
        self._endpoints = await self._stack.enter_async_context(
            PluginEndpoints(self._plugins_dir, self._ledger, self._devices_changed.set)
        )
        await self._stack.enter_async_context(serve_pod_resources(self._plugins_dir, self._pods))

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_devices())
            group.create_task(self._pods.follow())
            group.create_task(self._pods.work())

    async def _report_devices(self) -> None:
        """Write the node's status now and after every change of its devices."""
        self._devices_changed.set()
        while True:
            await self._devices_changed.wait()
            self._devices_changed.clear()
            try:
                await self._report_node()
            except ApiError as error:
                _log.warning("node status not written", node=self._node_name, error=str(error), retry_s=RETRY_S)
                await asyncio.sleep(RETRY_S)
                self._devices_changed.set()

    async def _report_node(self) -> None:
        with suppress(AlreadyExistsError):
            await self._client.create(NODES, describe_node(self._node_name, self._labels))
        body = report_node(self._ledger.capacity(), self._ledger.allocatable(), now())
        await self._client.patch(NODES, self._node_name, body, subresource="status")
