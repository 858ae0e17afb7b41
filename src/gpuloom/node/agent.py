"""The life of one node's device plugin: serve, register, start again with every new kubelet (device plugin 2).

It does not know about signals or configuration files; its caller does.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.podevents import record
from gpuloom.kube.recorder import EventRecorder
from gpuloom.node.allocate import Allocator
from gpuloom.node.cdi import write_specs
from gpuloom.node.cleaning import keep_from_cleaning
from gpuloom.node.clock import Sleep
from gpuloom.node.crashes import CrashCount
from gpuloom.node.errors import CardReadError, DriverMissingError, KubeletError
from gpuloom.node.health import HealthBook
from gpuloom.node.healthwatch import HealthWatch
from gpuloom.node.hostfiles import (
    check_library,
    close_containers_directory,
    make_lock_directory,
    remove_stale_lock,
)
from gpuloom.node.inventory import CardInventory
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.mig.lockfile import remove_stale
from gpuloom.node.nodewatch import watch_node
from gpuloom.node.nvml import Nvml
from gpuloom.node.plugin import DevicePluginService
from gpuloom.node.podresources import AllocationCheck
from gpuloom.node.registration import COMPONENT, NodeRegistration
from gpuloom.node.server import register, serve
from gpuloom.node.settings import NodeSettings
from gpuloom.node.sockets import check_socket_path
from gpuloom.wire.objects import Pod

RETRY_S = 30.0
POLL_S = 0.1
"""A kubelet that starts reads its pods a second later, and refuses those that do not run while a plugin is missing."""
_log = structlog.get_logger(__name__)

SocketIdentity = tuple[int, int]
_Served = Mapping[str, frozenset[str]]


class NodeAgent:
    """The device plugin of one node, from entering to leaving its ``async with`` block.

    Entering raises NodeError when the limiter's library is missing or the socket's path is too long. Later failures are
    logged, and the step is tried again. Leaving twice does no harm.
    """

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        nvml: Nvml,
        *,
        sleep: Sleep = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._now = now
        self._nvml = nvml
        book = HealthBook(settings.health)
        self._inventory = CardInventory(nvml, settings, book)
        self._watch = HealthWatch(nvml, self._inventory, book, settings.health, sleep=sleep, now=now)
        self._mig = MigKeeper(settings, client, nvml, sleep=sleep) if settings.mode == "mig" else None
        self._events = EventRecorder(client, COMPONENT)
        self._node = watch_node(client, settings, sleep=sleep)
        self._allocator = Allocator(
            settings,
            client,
            read_gpus=lambda: self._inventory.gpus,
            read_cards=lambda: self._inventory.cards,
            read_ids=self._inventory.find_ids,
            mig=self._mig,
            watch=self._node,
            report=self._report_no_room,
            sleep=sleep,
        )
        self._check = AllocationCheck(settings, client, self._events, sleep=sleep)
        self._registration = NodeRegistration(settings, client, self._inventory, nvml, self._events)
        self._run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._mig is None:
            check_library(self._settings)
        check_socket_path(self._settings.plugin_socket)
        self._nvml.forget_absent()
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
        """Wait until the agent fails for a reason that it cannot repair, and raise it."""
        if self._run is not None:
            await self._run

    async def _live(self) -> None:
        """Start the plugin again and again: at once for a new kubelet, after a failure in 30 s or for a new kubelet."""
        crashes = CrashCount()
        settings = self._settings
        divides = (settings.mig_lock.parent,) if self._mig is not None else ()
        async with AsyncExitStack() as stack:
            _put_in_order(settings)
            stack.enter_context(keep_from_cleaning(settings.on_this_side(settings.lock_dir), *divides))
            await stack.enter_async_context(self._events)
            stack.push_async_callback(self._check.close)
            while True:
                kubelet = _identify(self._settings.kubelet_socket)
                try:
                    crash = await self._serve_kubelet()
                except (KubeletError, CardReadError) as error:
                    self._give_up_without_driver(error)
                    _log.warning("device plugin did not start", error=str(error), retry_s=RETRY_S)
                    await self._wait_for_kubelet(kubelet)
                    continue
                if crash:
                    crashes.add(self._now(), crash)
                _log.info("starting again", node=self._settings.node_name)

    def _report_no_room(self, pod: Pod, message: str) -> None:
        record(self._events, pod, "Warning", "CardGivenTwice", message)

    def _give_up_without_driver(self, error: Exception) -> None:
        """Fail when there never was a driver; wait for a driver that went away."""
        if isinstance(error, DriverMissingError) and self._settings.fail_on_init_error and not self._inventory.is_read:
            raise error

    async def _serve_kubelet(self) -> str:
        """Serve the present kubelet until it or the resources change; return what else ended it, or nothing.

        Raises KubeletError and CardReadError.
        """
        settings = self._settings
        remove_stale(settings.mig_lock)
        if self._mig:
            self._inventory.offer_parts(await self._mig.prepare(await self._inventory.read_gpus()))
        await self._inventory.refresh()
        await write_specs(settings)
        served = self._read_served()
        async with AsyncExitStack() as stack:
            for resource in self._inventory.resources:
                service = DevicePluginService(
                    settings, self._inventory, self._allocator, self._check.begin, resource=resource
                )
                await stack.enter_async_context(serve(service, settings.find_socket(resource)))
            own = self._identify_sockets(self._inventory.resources)
            self._allocator.meet_kubelet()
            self._check.drop()
            # The kubelet may have come since the cards were read; to register twice makes it drop its devices.
            kubelet = _identify(settings.kubelet_socket)
            if kubelet is None:
                raise KubeletError(f"there is no kubelet at {settings.kubelet_socket}")
            for resource in self._inventory.resources:
                await register(settings, resource)
                _log.info("device plugin is registered", node=settings.node_name, resource=resource)
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(self._watch.run()),
                    group.create_task(self._registration.keep(sleep=self._sleep)),
                    group.create_task(self._node.run()),
                ]
                if self._mig:
                    helpers.append(group.create_task(self._mig.keep(self._inventory.offer_parts)))
                end = await self._wait_for_end(kubelet, served, own)
                for helper in helpers:
                    helper.cancel()
            return end

    async def _wait_for_end(
        self, kubelet: SocketIdentity, served: _Served, own: Mapping[Path, SocketIdentity | None]
    ) -> str:
        """Wait until the plugin must start again; return a cause that counts as a crash, else an empty text."""
        while True:
            await self._sleep(POLL_S)
            with suppress(OSError):
                remove_stale_lock(self._settings)
            present = _identify(self._settings.kubelet_socket)
            if present not in {kubelet, None}:
                _log.info("there is a new kubelet", node=self._settings.node_name)
                return ""
            if self._read_served() != served:
                _log.info("there are other resources or devices", resources=sorted(self._inventory.resources))
                return ""
            # A kubelet that starts removes all sockets, its own first.
            lost = [path for path, identity in own.items() if _identify(path) != identity]
            if present == kubelet and lost:
                return f"its socket {lost[0]} was removed or replaced"

    async def _wait_for_kubelet(self, known: SocketIdentity | None) -> None:
        """Return when there is another kubelet.sock than the known one, or after 30 s."""
        waited_s = 0.0
        while waited_s < RETRY_S:
            await self._sleep(POLL_S)
            waited_s += POLL_S
            if _identify(self._settings.kubelet_socket) not in {known, None}:
                return

    def _read_served(self) -> _Served:
        """Return the resources, and their ids if container runtimes must know these by name before they are used."""
        names_ids = self._settings.injection.uses_cdi
        resources = self._inventory.resources
        return {name: frozenset(self._inventory.find_ids(name) if names_ids else ()) for name in resources}

    def _identify_sockets(self, resources: Iterable[str]) -> Mapping[Path, SocketIdentity | None]:
        return {path: _identify(path) for path in map(self._settings.find_socket, resources)}


def _put_in_order(settings: NodeSettings) -> None:
    """Set the permissions of the folders that containers write to, also of those that an older plugin left."""
    for put in (close_containers_directory, make_lock_directory):
        try:
            put(settings)
        except OSError as error:
            _log.warning("folder cannot be put in order", folder=error.filename, error=error.strerror)


def _identify(path: Path) -> SocketIdentity | None:
    # File systems reuse inode numbers, so the time of creation belongs to the identity.
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
