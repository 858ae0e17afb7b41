"""The device plugin as the kubelet calls it: gRPC in, gRPC out (device plugin 3). It decides nothing itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import structlog

from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.errors import AllocationError
from gpuloom.node.inventory import CardInventory
from gpuloom.node.plan import Grant
from gpuloom.node.replicas import replica_ids
from gpuloom.node.settings import NodeSettings

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
_log = structlog.get_logger(__name__)


def plugin_options() -> api.DevicePluginOptions:
    """Tell what the plugin says about itself, in Register and when asked: one source (device plugin P-07)."""
    return api.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=False)


def list_devices(cards: Sequence[Card], settings: NodeSettings) -> list[api.Device]:
    """List the replicas of all cards, with NUMA nodes only where ``enable_numa_topology`` is set."""
    return [
        api.Device(
            ID=replica,
            health=HEALTHY if card.healthy else UNHEALTHY,
            topology=api.TopologyInfo(nodes=[api.NUMANode(ID=card.numa)]) if settings.enable_numa_topology else None,
        )
        for card in cards
        for replica in replica_ids(card)
    ]


class DevicePluginService:
    """Serves ``v1beta1.DevicePlugin`` on one server. Method names are the protocol's."""

    def __init__(self, settings: NodeSettings, inventory: CardInventory, allocator: Allocator) -> None:
        self._settings = settings
        self._inventory = inventory
        self._allocator = allocator
        self._is_closing = False
        self._streams: set[asyncio.Task[Any]] = set()
        self._allocations: set[asyncio.Task[tuple[Grant, ...]]] = set()

    def end_streams(self) -> None:
        """End every ListAndWatch, so that a server can stop without waiting for its kubelet."""
        self._is_closing = True
        for stream in self._streams:
            stream.cancel()

    async def finish_allocations(self) -> None:
        """Wait for the Allocate calls that were cut off but have begun to write."""
        if self._allocations:
            await asyncio.wait(self._allocations)

    async def GetDevicePluginOptions(  # noqa: N802
        self, request: api.Empty, context: grpc.aio.ServicerContext
    ) -> api.DevicePluginOptions:
        """Say exactly what Register said."""
        del request, context
        return plugin_options()

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send the full list at once and after every change; stay open until the kubelet or the server ends it."""
        del request, context
        with _tracked(self._streams):
            try:
                async for cards in self._inventory.changes():
                    yield api.ListAndWatchResponse(devices=list_devices(cards, self._settings))
            except asyncio.CancelledError:
                # gRPC leaves a call open whose handler was cancelled, so a stream that is ended returns instead.
                if not self._is_closing:
                    raise

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: grpc.aio.ServicerContext
    ) -> api.PreferredAllocationResponse:
        """Prefer nothing: the options say that nobody need ask."""
        del request, context
        return api.PreferredAllocationResponse()

    async def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: grpc.aio.ServicerContext
    ) -> api.AllocateResponse:
        """Grant devices to the containers of the pod that the node lock names."""
        counts = [len(container.devices_ids) for container in request.container_requests]
        try:
            grants = await self._allocate(counts)
        except AllocationError as error:
            _log.warning("allocation refused", node=self._settings.node_name, error=str(error))
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api.AllocateResponse(container_responses=[_to_response(grant) for grant in grants])

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: grpc.aio.ServicerContext
    ) -> api.PreStartContainerResponse:
        """Nothing to do; never required."""
        del request, context
        return api.PreStartContainerResponse()

    async def _allocate(self, counts: Sequence[int]) -> tuple[Grant, ...]:
        # A kubelet that hangs up must not leave a pod half served: what has begun is finished.
        task = asyncio.create_task(self._allocator.allocate(counts))
        self._allocations.add(task)
        task.add_done_callback(self._allocations.discard)
        return await asyncio.shield(task)


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


def _to_response(grant: Grant) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=grant.environment,
        mounts=[
            api.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in grant.mounts
        ],
    )
