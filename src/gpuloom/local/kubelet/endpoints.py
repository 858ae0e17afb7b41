"""The kubelet's side of the device plugin API: plugins register, are watched, and are asked to Allocate."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import structlog

from gpuloom.local.kubelet.errors import AdmissionError
from gpuloom.local.kubelet.ledger import DeviceLedger
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginStub, add_RegistrationServicer_to_server
from gpuloom.node.plugin import HEALTHY
from gpuloom.node.server import API_VERSION
from gpuloom.node.sockets import check_socket_path

_log = structlog.get_logger(__name__)


class PluginEndpoints:
    """Serves ``v1beta1.Registration`` on ``kubelet.sock`` and keeps one connection per resource.

    A new instance is a restarted kubelet: entering removes every socket in the directory, as the kubelet does.
    """

    def __init__(self, plugins_dir: Path, ledger: DeviceLedger, on_change: Callable[[], None]) -> None:
        self._plugins_dir = plugins_dir
        self._socket = plugins_dir / "kubelet.sock"
        self._ledger = ledger
        self._on_change = on_change
        self._server = grpc.aio.server()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._prefers: dict[str, bool] = {}

    async def __aenter__(self) -> Self:
        check_socket_path(self._socket)
        _clear_sockets(self._plugins_dir)
        add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)
        for resource in tuple(self._channels):
            await self._disconnect(resource)
        self._socket.unlink(missing_ok=True)

    async def Register(self, request: api.RegisterRequest, context: grpc.aio.ServicerContext) -> api.Empty:  # noqa: N802 - gRPC's name
        """Take a plugin's registration, and connect to it instead of an earlier one of the same resource."""
        if request.version != API_VERSION:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version!r} is not supported, only {API_VERSION}"
            )
        resource = request.resource_name
        await self._disconnect(resource)
        self._prefers[resource] = request.options.get_preferred_allocation_available
        self._channels[resource] = grpc.aio.insecure_channel(
            f"unix:{self._plugins_dir / request.endpoint}", options=[("grpc.default_authority", "localhost")]
        )
        if not self._ledger.manages(resource):
            self._ledger.replace(resource, {})
        self._watches[resource] = asyncio.create_task(self._watch(resource, self._channels[resource]))
        return api.Empty()

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Ask the plugin for one container.

        Raises AdmissionError with the kubelet's text.
        """
        channel = self._channels.get(resource)
        if channel is None:
            raise AdmissionError(f"Allocate failed due to endpoint {resource} is not there, which is unexpected")
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        try:
            response = await DevicePluginStub(channel).Allocate(request)
        except grpc.aio.AioRpcError as error:
            code = "".join(word.capitalize() for word in error.code().name.split("_"))
            raise AdmissionError(
                f"Allocate failed due to rpc error: code = {code} desc = {error.details()}, which is unexpected"
            ) from error
        answer: api.ContainerAllocateResponse = response.container_responses[0]
        return answer

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Ask the plugin which ids it would rather see in use, if it said that it has an opinion."""
        channel = self._channels.get(resource)
        if channel is None or not self._prefers[resource]:
            return ()
        one = api.ContainerPreferredAllocationRequest(
            available_device_ids=available, must_include_device_ids=required, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[one])
        try:
            response = await DevicePluginStub(channel).GetPreferredAllocation(request)
        except grpc.aio.AioRpcError as error:
            _log.info("device plugin has no preference", resource=resource, error=error.details())
            return ()
        return tuple(response.container_responses[0].device_ids) if response.container_responses else ()

    async def _watch(self, resource: str, channel: grpc.aio.Channel) -> None:
        try:
            async for response in DevicePluginStub(channel).ListAndWatch(api.Empty(), wait_for_ready=True):
                self._ledger.replace(resource, {device.ID: device.health == HEALTHY for device in response.devices})
                self._on_change()
        except grpc.aio.AioRpcError as error:
            _log.info("device plugin is gone", resource=resource, error=error.details())
        finally:
            self._ledger.mark_unhealthy(resource)
            self._on_change()

    async def _disconnect(self, resource: str) -> None:
        if watch := self._watches.pop(resource, None):
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        if channel := self._channels.pop(resource, None):
            await channel.close()


def _clear_sockets(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_socket():
            path.unlink()
