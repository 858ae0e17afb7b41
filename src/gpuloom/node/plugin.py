"""The device plugin as the kubelet calls it: gRPC in, gRPC out (device plugin 3). It decides nothing itself."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import structlog

from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator, Served
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.errors import AllocationError
from gpuloom.node.inventory import CardInventory
from gpuloom.node.preference import PreferenceRequest
from gpuloom.node.replicas import replica_ids
from gpuloom.node.response import Injection
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.objects import Pod

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
_log = structlog.get_logger(__name__)


def plugin_options(settings: NodeSettings, resource: str) -> api.DevicePluginOptions:
    """Return a resource's plugin options, the same in Register and when asked (device plugin P-07)."""
    has_preference = settings.enable_preferred_allocation and resource == settings.resource_name
    return api.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=has_preference)


def list_devices(cards: Sequence[Card], settings: NodeSettings, resource: str) -> list[api.Device]:
    """List the replicas of a resource's cards, with NUMA nodes only where ``enable_numa_topology`` is set."""
    are_slices = resource in settings.time_slicing.slices
    return [
        api.Device(
            ID=replica,
            health=HEALTHY if card.healthy else UNHEALTHY,
            topology=api.TopologyInfo(nodes=[api.NUMANode(ID=card.numa)]) if settings.enable_numa_topology else None,
        )
        for card in cards
        for replica in replica_ids(card, are_slices=are_slices)
    ]


class DevicePluginService:
    """Serves ``v1beta1.DevicePlugin`` for one resource on one server. Method names are those of the protocol.

    ``on_served`` is called for every served pod, with the device ids that the kubelet chose; it must not block.
    """

    def __init__(
        self,
        settings: NodeSettings,
        inventory: CardInventory,
        allocator: Allocator,
        on_served: Callable[[Pod, Sequence[str]], None],
        *,
        resource: str | None = None,
    ) -> None:
        self._resource = resource or settings.resource_name
        self._on_served = on_served
        self._settings = settings
        self._inventory = inventory
        self._allocator = allocator
        self._is_closing = False
        self._streams: set[asyncio.Task[Any]] = set()
        self._allocations: set[asyncio.Task[Served]] = set()

    def end_streams(self) -> None:
        """End every ListAndWatch, so that a server can stop without waiting for its kubelet."""
        self._is_closing = True
        for stream in self._streams:
            stream.cancel()

    async def finish_allocations(self) -> None:
        """Wait for cancelled Allocate calls that have begun to write."""
        if self._allocations:
            await asyncio.wait(self._allocations)

    async def GetDevicePluginOptions(  # noqa: N802 - gRPC's name
        self, request: api.Empty, context: grpc.aio.ServicerContext
    ) -> api.DevicePluginOptions:
        """Return exactly the options of Register."""
        del request, context
        return plugin_options(self._settings, self._resource)

    async def ListAndWatch(  # noqa: N802 - gRPC's name
        self, request: api.Empty, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send the full list at once and after every change; stay open until the kubelet or the server ends it."""
        del request, context
        with _tracked(self._streams):
            try:
                async for cards in self._inventory.changes(self._resource):
                    yield api.ListAndWatchResponse(devices=list_devices(cards, self._settings, self._resource))
            except asyncio.CancelledError:
                # gRPC leaves a call open whose handler was cancelled, so a stream that is to end returns instead.
                if not self._is_closing:
                    raise

    async def GetPreferredAllocation(  # noqa: N802 - gRPC's name
        self, request: api.PreferredAllocationRequest, context: grpc.aio.ServicerContext
    ) -> api.PreferredAllocationResponse:
        """Prefer ids on the cards that the scheduler chose; an empty answer leaves the choice to the kubelet."""
        del context
        answers = await self._allocator.prefer([_to_preference(one) for one in request.container_requests])
        return api.PreferredAllocationResponse(
            container_responses=[api.ContainerPreferredAllocationResponse(device_ids=ids) for ids in answers]
        )

    async def Allocate(  # noqa: N802 - gRPC's name
        self, request: api.AllocateRequest, context: grpc.aio.ServicerContext
    ) -> api.AllocateResponse:
        """Grant devices to the containers of the pod that the node lock names."""
        requests = [tuple(container.devices_ids) for container in request.container_requests]
        try:
            injections = await self._answer(requests)
        except AllocationError as error:
            _log.warning("allocation refused", node=self._settings.node_name, error=str(error))
            await context.abort(grpc.StatusCode.UNKNOWN, error.told)
        return api.AllocateResponse(container_responses=[_to_response(injection) for injection in injections])

    async def PreStartContainer(  # noqa: N802 - gRPC's name
        self, request: api.PreStartContainerRequest, context: grpc.aio.ServicerContext
    ) -> api.PreStartContainerResponse:
        """Do nothing; never required."""
        del request, context
        return api.PreStartContainerResponse()

    async def _answer(self, requests: Sequence[Sequence[str]]) -> Sequence[Injection]:
        if self._resource != self._settings.resource_name:
            return self._allocator.show_instances(self._resource, requests)
        served = await self._allocate(requests)
        self._on_served(served.pod, [each for request in requests for each in request])
        return [grant.injection for grant in served.grants]

    async def _allocate(self, requests: Sequence[Sequence[str]]) -> Served:
        begun = asyncio.Event()
        task = asyncio.create_task(self._allocator.allocate(requests, on_found=begun.set))
        self._allocations.add(task)
        task.add_done_callback(self._allocations.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # A kubelet that hangs up must not leave a pod half served, so what has begun is finished. A new one asks
            # again for a pod of which nothing was changed.
            if not begun.is_set():
                task.cancel()
            task.add_done_callback(self._tell_unheard)
            raise

    def _tell_unheard(self, task: asyncio.Task[Served]) -> None:
        """Log how a call ended that nobody waits for any more."""
        if task.cancelled():
            _log.info("the kubelet hung up, nothing was changed", node=self._settings.node_name)
        elif error := task.exception():
            _log.warning("allocation refused", node=self._settings.node_name, error=str(error))
        else:
            _log.warning("the kubelet hung up before it was answered", pod=task.result().pod.full_name)


@contextmanager
def _tracked(tasks: set[asyncio.Task[Any]]) -> Iterator[None]:
    """Keep the present task in the set while the block runs."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("only a task can be tracked")
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


def _to_preference(request: Any) -> PreferenceRequest:
    return PreferenceRequest(
        available=tuple(request.available_device_ids),
        required=tuple(request.must_include_device_ids),
        size=request.allocation_size,
    )


def _to_response(injection: Injection) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=injection.environment,
        mounts=[
            api.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in injection.mounts
        ],
        devices=[
            api.DeviceSpec(container_path=each.container_path, host_path=each.host_path, permissions="rw")
            for each in injection.device_files
        ],
        annotations=injection.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in injection.cdi_devices],
    )
