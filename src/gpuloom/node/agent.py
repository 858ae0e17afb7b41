"""The life of one node's device plugin: serve, register, start again with every new kubelet (device plugin 2).

It does not know about signals or configuration files; whoever enters it does.
"""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.node.allocate import Allocator
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import CardReadError, KubeletError
from gpuloom.node.hostfiles import check_library
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Nvml
from gpuloom.node.plugin import DevicePluginService
from gpuloom.node.registration import keep_registered
from gpuloom.node.server import check_socket_path, register, serve
from gpuloom.node.settings import NodeSettings

RETRY_S = 30.0
POLL_S = 1.0
_log = structlog.get_logger(__name__)

SocketIdentity = tuple[int, int]


class NodeAgent:
    """The device plugin of one node, from entering to leaving its ``async with`` block.

    Entering raises NodeError when the limiter's library is missing or the socket's path is too long; later troubles
    are logged and tried again. Leaving twice does no harm.
    """

    def __init__(self, settings: NodeSettings, client: KubeClient, nvml: Nvml, *, sleep: Sleep = asyncio.sleep) -> None:
        self._settings = settings
        self._client = client
        self._sleep = sleep
        self._inventory = CardInventory(nvml, settings, sleep=sleep)
        self._allocator = Allocator(settings, client, sleep=sleep)
        self._run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        check_library(self._settings)
        check_socket_path(self._settings.plugin_socket)
        self._run = asyncio.create_task(self._live(), name=f"device plugin of {self._settings.node_name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.cancel()
        await asyncio.wait({run})
        if not run.cancelled() and (failure := run.exception()) not in {None, error}:
            raise failure

    async def run(self) -> None:
        """Wait until the agent fails for a reason that it cannot mend, and raise that."""
        if self._run is not None:
            await self._run

    async def _live(self) -> None:
        """Start the plugin again and again: after a new kubelet at once, after a failure in 30 s or with a new one."""
        while True:
            kubelet = _identify(self._settings.kubelet_socket)
            try:
                await self._serve_kubelet(kubelet)
                _log.info("new kubelet, starting again", node=self._settings.node_name)
            except (KubeletError, CardReadError) as error:
                _log.warning("device plugin did not start", error=str(error), retry_s=RETRY_S)
                await self._wait_for_kubelet(kubelet, limit_s=RETRY_S)

    async def _serve_kubelet(self, kubelet: SocketIdentity | None) -> None:
        """Serve one kubelet until there is another one."""
        settings = self._settings
        await self._inventory.refresh()
        service = DevicePluginService(settings, self._inventory, self._allocator)
        async with serve(service, settings.plugin_socket):
            await register(
                settings.kubelet_socket, endpoint=settings.plugin_socket.name, resource_name=settings.resource_name
            )
            _log.info("device plugin is registered", node=settings.node_name, resource=settings.resource_name)
            async with asyncio.TaskGroup() as group:
                helpers = (
                    group.create_task(self._inventory.follow()),
                    group.create_task(keep_registered(settings, self._client, self._inventory, sleep=self._sleep)),
                )
                await self._wait_for_kubelet(kubelet)
                for helper in helpers:
                    helper.cancel()

    async def _wait_for_kubelet(self, known: SocketIdentity | None, *, limit_s: float | None = None) -> None:
        """Return when kubelet.sock is another than the known one, or after `limit_s`."""
        waited_s = 0.0
        while limit_s is None or waited_s < limit_s:
            await self._sleep(POLL_S)
            waited_s += POLL_S
            if _identify(self._settings.kubelet_socket) not in {known, None}:
                return


def _identify(path: Path) -> SocketIdentity | None:
    # File systems reuse inode numbers, so the time of creation belongs to the identity.
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
