"""A whole small cluster in this process: API server, scheduler, pod queue and nodes with simulated cards.

The scheduler and the node agents are the real ones; they meet only through the API server and the kubelets' sockets.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import MUTATING_WEBHOOKS, NODES, PODS, SERVICES
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.description import ClusterDescription, NodeDescription, VendorNodeDescription
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.local.kubelet.statuses import describe_node
from gpuloom.local.queue import ExtenderClient, PodQueue
from gpuloom.local.use import InventedUse
from gpuloom.local.vendornode import VendorNode
from gpuloom.local.waiting import Key, wait_until
from gpuloom.local.webhooks import describe_webhook
from gpuloom.node.agent import NodeAgent
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import MachineDescription, SimulatedMachine
from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.web.protocol import SERVICE_PORT
from gpuloom.web.server import WebPart, WebSettings
from gpuloom.wire import keys
from gpuloom.wire.objects import Node, Pod

_LOOPBACK = "127.0.0.1"
_USE_S = 5.0
"""So often pods are asked what they use; sixty points are five minutes."""
_PAGES_NAMESPACE, _PAGES_SERVICE = "kube-system", "gpuloom-web"


class LocalClusterError(Exception):
    """The local cluster did not get ready; the message says which part."""


class LocalCluster:
    """The cluster of a description, from entering to leaving its ``async with`` block.

    ``directory`` holds everything that it writes, sockets included, so its path must be short; whoever made it removes
    it. ``port`` is the API server's, 0 for a free one. Entering raises OSError when the port is taken.

    Inside the block: ``client`` speaks to the API server, ``pages_url`` is where the scheduler shows what it knows,
    ``kubelets`` and simulated ``machines`` are by node name.
    """

    def __init__(
        self,
        description: ClusterDescription,
        directory: Path,
        *,
        port: int = 0,
        backoff_initial_s: float = 1.0,
        backoff_max_s: float = 10.0,
    ) -> None:
        self.description = description
        self.kubeconfig = directory / "kubeconfig"
        self.pages_url = ""
        self.kubelets: dict[str, SimulatedKubelet] = {}
        self.machines: dict[str, SimulatedMachine] = {}
        self._directory = directory
        self._port = port
        self._backoff_initial_s = backoff_initial_s
        self._backoff_max_s = backoff_max_s
        self._stack = AsyncExitStack()
        self._guards: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._client: KubeClient | None = None
        self._server: LocalApiServer | None = None
        self._scheduler: SchedulerProcess | None = None

    @property
    def client(self) -> KubeClient:
        """A client of the cluster's API server, for whoever uses the cluster."""
        if self._client is None:
            raise RuntimeError("LocalCluster is used outside its async with block")
        return self._client

    @property
    def server(self) -> LocalApiServer:
        """The cluster's API server."""
        if self._server is None:
            raise RuntimeError("LocalCluster is used outside its async with block")
        return self._server

    @property
    def scheduler(self) -> SchedulerProcess:
        """The cluster's scheduler."""
        if self._scheduler is None:
            raise RuntimeError("LocalCluster is used outside its async with block")
        return self._scheduler

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            api_server = await stack.enter_async_context(LocalApiServer(port=self._port))
            self._server = api_server
            api_server.write_kubeconfig(self.kubeconfig)
            self._client = await self._connect(stack)
            authority = CertificateAuthority.create("gpuloom local scheduler CA")
            scheduler = self._scheduler = await self._start_scheduler(stack, authority)
            url = scheduler.url
            await self._start_pages(stack, api_server, scheduler)
            service = f"{_PAGES_NAMESPACE}/{_PAGES_SERVICE}"
            await self.client.create(MUTATING_WEBHOOKS, describe_webhook(f"{url}/webhook", authority.pem, service))
            for node in self.description.nodes:
                await self._start_node(stack, node)
            for vendor_node in self.description.vendor_nodes:
                await self._start_vendor_node(stack, vendor_node)
            await self._start_queues(stack, url, authority)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client = None
        await self._stack.aclose()

    async def submit(self, manifest: Mapping[str, Any]) -> Pod:
        """Create a pod in the namespace that its manifest names.

        Raises ApiError.
        """
        return await self.client.create(PODS, manifest, namespace=manifest["metadata"]["namespace"])

    async def wait_until_registered(self, *, timeout_s: float = 10.0) -> None:
        """Return when every node has registered its cards with scheduler and kubelet.

        Raises LocalClusterError after the time.
        """
        names = [node.name for node in self.description.nodes]
        try:
            await wait_until(self.client, NODES, lambda found: _are_registered(found, names), timeout_s=timeout_s)
        except TimeoutError as error:
            raise LocalClusterError(f"nodes did not register their cards within {timeout_s:g} s") from error

    async def wait_failed(self) -> None:
        """Wait until a part of the cluster ends by itself, which none should, and raise what ended it."""
        async with asyncio.TaskGroup() as group:
            for guard in self._guards:
                group.create_task(guard())

    async def _connect(self, stack: AsyncExitStack) -> KubeClient:
        return await stack.enter_async_context(KubeClient(load_kubeconfig(self.kubeconfig)))

    async def _start_scheduler(self, stack: AsyncExitStack, authority: CertificateAuthority) -> SchedulerProcess:
        certificate, key = self._directory / "scheduler.crt", self._directory / "scheduler.key"
        certificate_pem, key_pem = authority.issue([_LOOPBACK])
        certificate.write_bytes(certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(key_pem)
        settings = SchedulerSettings(
            scheduler_name=self.description.scheduler_name,
            http_bind=f"{_LOOPBACK}:0",
            metrics_bind_address=f"{_LOOPBACK}:0",
            metrics_auth=True,
            cert_file=str(certificate),
            key_file=str(key),
            enable_ascend=True,
            enable_iluvatar=True,
            profiles=self.description.profiles,
            node_scheduler_policy=self.description.node_scheduler_policy,
            gpu_scheduler_policy=self.description.gpu_scheduler_policy,
            preemption=self.description.preemption,
        )
        scheduler = await stack.enter_async_context(SchedulerProcess(settings, await self._connect(stack)))
        self._guards.append(scheduler.wait_failed)
        return scheduler

    async def _start_pages(self, stack: AsyncExitStack, server: LocalApiServer, scheduler: SchedulerProcess) -> None:
        """Serve the scheduler's pages, directly and behind the API server."""
        client = await self._connect(stack)
        settings = WebSettings(web_bind=f"{_LOOPBACK}:0", monitor_interval_s=_USE_S, point_s=_USE_S)
        use = InventedUse(scheduler.parts, [node.name for node in self.description.nodes])
        pages = await stack.enter_async_context(WebPart(settings, scheduler.parts, client, monitors=use))
        self.pages_url = pages.url
        server.proxy.add("services", _PAGES_NAMESPACE, f"{_PAGES_SERVICE}:{SERVICE_PORT}", pages.url)
        await client.create(SERVICES, _describe_pages(), namespace=_PAGES_NAMESPACE)

    async def _start_node(self, stack: AsyncExitStack, node: NodeDescription) -> None:
        host_root = self._directory / node.name
        plugins_dir = host_root / "dp"
        plugins_dir.mkdir(parents=True)
        settings = NodeSettings(
            node_name=node.name,
            plugins_dir=plugins_dir,
            host_root=host_root,
            scheduler_name=self.description.scheduler_name,
            injection=node.injection,
        )
        library = settings.on_this_side(settings.library)
        library.parent.mkdir(parents=True)
        library.touch()
        client = await self._connect(stack)
        # The agent's first look at its node must find it.
        await client.create(NODES, describe_node(node.name, node.labels))
        nvml = self._open_cards(node)
        self.kubelets[node.name] = await stack.enter_async_context(SimulatedKubelet(node.name, client, plugins_dir))
        agent = await stack.enter_async_context(NodeAgent(settings, client, nvml))
        self._guards.append(agent.run)

    def _open_cards(self, node: NodeDescription) -> Nvml:
        if not isinstance(node.machine, MachineDescription):
            return node.machine
        machine = self.machines[node.name] = SimulatedMachine(node.name, node.machine)
        return machine

    async def _start_vendor_node(self, stack: AsyncExitStack, described: VendorNodeDescription) -> None:
        client = await self._connect(stack)
        node = VendorNode(described.name, described.machine, client, self.description.catalog)
        await node.create(described.labels)
        task = asyncio.create_task(node.run(), name=f"vendor node {described.name}")
        stack.push_async_callback(_end, task)
        self._guards.append(lambda: _watch(task))

    async def _start_queues(self, stack: AsyncExitStack, url: str, authority: CertificateAuthority) -> None:
        extender = await stack.enter_async_context(ExtenderClient(url, ca_pem=authority.pem))
        await self._start_queue(stack, self.description.scheduler_name, extender)
        # Pods without cards keep the default scheduler's name and must find a node too.
        await self._start_queue(stack, "default-scheduler", None)

    async def _start_queue(self, stack: AsyncExitStack, name: str, extender: ExtenderClient | None) -> None:
        client = await self._connect(stack)
        recorder = await stack.enter_async_context(EventRecorder(client, name))
        queue = PodQueue(
            client,
            extender,
            recorder,
            name,
            backoff_initial_s=self._backoff_initial_s,
            backoff_max_s=self._backoff_max_s,
            managed=frozenset(name for profile in self.description.catalog for name in profile.resources.all),
        )
        self._guards.append((await stack.enter_async_context(queue)).wait_failed)


def _are_registered(found: Mapping[Key, Node], names: list[str]) -> bool:
    nodes = [found.get(("", name)) for name in names]
    return all(node is not None and _is_registered(node) for node in nodes)


def _is_registered(node: Node) -> bool:
    counted = any(resource.startswith("nvidia.com/") for resource in node.status.allocatable or {})
    return counted and keys.NODE_REGISTER in node.annotations


async def _watch(task: asyncio.Task[None]) -> None:
    """Raise what ends the task, without ending it."""
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _describe_pages() -> dict[str, Any]:
    """Describe the Service that leads to the pages."""
    return {
        "metadata": {"name": _PAGES_SERVICE, "namespace": _PAGES_NAMESPACE},
        "spec": {"ports": [{"name": SERVICE_PORT, "port": 9396}]},
    }
