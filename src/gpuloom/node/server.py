"""Serve the plugin on its socket, and announce it to the kubelet (device plugin 2)."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import RegistrationStub, add_DevicePluginServicer_to_server
from gpuloom.node.errors import KubeletError
from gpuloom.node.plugin import DevicePluginService, plugin_options
from gpuloom.node.settings import NodeSettings
from gpuloom.node.sockets import check_socket_path, dial

API_VERSION = "v1beta1"
_DIAL_TIMEOUT_S = 5.0
_STOP_GRACE_S = 5.0


@asynccontextmanager
async def serve(service: DevicePluginService, path: Path) -> AsyncIterator[None]:
    """Serve on the socket inside the block, and remove it afterwards; replace a socket that was left behind.

    Raises KubeletError when the socket cannot be served.
    """
    check_socket_path(path)
    server = grpc.aio.server()
    add_DevicePluginServicer_to_server(service, server)
    try:
        await _start(server, path)
        yield
    finally:
        service.end_streams()
        # In Python 3.11 gRPC's stop loses a cancellation that arrives as it ends, and the plugin would start again.
        await _finish(_end(server, service, path))


async def _finish(step: Coroutine[Any, Any, None]) -> None:
    """Do a step of gRPC's server to its end; a cancellation that comes meanwhile is raised then."""
    doing = asyncio.create_task(step)
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise


async def _end(server: grpc.aio.Server, service: DevicePluginService, path: Path) -> None:
    await server.stop(_STOP_GRACE_S)
    await service.finish_allocations()
    # What cannot be removed is met again, and told, by the next start.
    with suppress(OSError):
        _remove(path)


async def register(settings: NodeSettings, resource: str) -> None:
    """Register a resource's plugin with the kubelet.

    Raises KubeletError.
    """
    request = api.RegisterRequest(
        version=API_VERSION,
        endpoint=settings.find_socket(resource).name,
        resource_name=resource,
        options=plugin_options(settings, resource),
    )
    try:
        async with dial(settings.kubelet_socket) as channel:
            await RegistrationStub(channel).Register(request, timeout=_DIAL_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise KubeletError(
            f"kubelet at {settings.kubelet_socket} did not register {resource}: {error.details()}"
        ) from error


async def _start(server: grpc.aio.Server, path: Path) -> None:
    try:
        _remove(path)
        server.add_insecure_port(f"unix:{path}")
        # A server whose start was cancelled cannot be stopped: that raises InvalidStateError.
        await _finish(server.start())
    except (OSError, RuntimeError) as error:
        raise KubeletError(f"cannot serve the device plugin on {path}: {error}") from error
    await _check_is_up(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _check_is_up(path: Path) -> None:
    try:
        async with dial(path) as channel, asyncio.timeout(_DIAL_TIMEOUT_S):
            await channel.channel_ready()
    except TimeoutError as error:
        raise KubeletError(f"the device plugin's own socket {path} does not answer") from error
