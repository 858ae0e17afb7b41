"""A real control plane with nodes that are objects only, and gpuloom's scheduler beside it: for bursts and chaos."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from gpuloom.kube import NODES, PODS, KubeClient, load_kubeconfig
from gpuloom.model.card import Card
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register
from harness.controlplane import ControlPlane, find_free_ports
from harness.faultyproxy import FaultyProxy
from harness.gpuloom import GPULOOM
from harness.installation import SCHEDULER_NAME, scheduler_configuration
from harness.processes import ChildProcess

RAISED_LIMITS = {"clientConnection": {"qps": 5000, "burst": 10000}}
"""kube-scheduler's own limits on calls, raised so that they are not what is measured."""
AT_ONCE = 16
SERVES = "gpuloom.io/serves"
PLUGIN_LABELS = {"app.kubernetes.io/component": "hami-device-plugin"}
NEVER_DUE = "Requesting_2099-01-01 00:00:00"
"""A handshake that no scheduler repeats: no plugin is there to answer it."""


class Fleet:
    """An API server, a proxy before it that may fail, and gpuloom behind that, as an async context manager.

    Attributes: `control_plane`, `client` (straight to the API server), `proxy`, `extender_url`, `metrics_url`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cards: int = 4,
        memory_mib: int = 10_000,
        slots: int = 10,
        own_plugins: bool = True,
        environment: Mapping[str, str] = MappingProxyType({}),
    ):
        """Prepare a fleet in `directory` whose nodes have so many cards of this size, each for so many containers.

        With `own_plugins` every node has a pod that says that gpuloom's device plugin runs there: whoever plays that
        one must be there, or no node is ever free again. `environment` as in `ControlPlane`.
        """
        self._own_plugins = own_plugins
        self.control_plane = ControlPlane(directory / "control-plane", environment=environment)
        self._directory = directory
        self._size: dict[str, Any] = {"cards": cards, "memory_mib": memory_mib, "slots": slots}
        port, metrics_port = find_free_ports(2)
        self._addresses = (f"127.0.0.1:{port}", f"127.0.0.1:{metrics_port}")
        self.extender_url, self.metrics_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{metrics_port}/metrics"
        self._stack = AsyncExitStack()
        self._gpuloom: ChildProcess | None = None
        self.client: KubeClient
        self.proxy: FaultyProxy

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self.control_plane.__enter__)
            stack.push_async_callback(asyncio.to_thread, self.control_plane.__exit__)
            self.client = await stack.enter_async_context(KubeClient(load_kubeconfig(self.control_plane.kubeconfig)))
            plane = self.control_plane
            self.proxy = await stack.enter_async_context(FaultyProxy(plane.url, plane.ca_file, plane.admin_token))
            self.proxy.write_kubeconfig(self.kubeconfig)
            stack.push_async_callback(self.stop_gpuloom)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of whoever is to go through the proxy."""
        return self._directory / "proxy.kubeconfig"

    @property
    def gpuloom_pid(self) -> int:
        """The process id of gpuloom's scheduler. Raise RuntimeError when it was not started."""
        if self._gpuloom is None:
            raise RuntimeError("gpuloom's scheduler was not started")
        return self._gpuloom.pid

    async def add_nodes(self, count: int) -> None:
        """Create ready nodes with cards, named node-0 and so on."""
        await self.add_made([make_node(f"node-{number}", **self._size) for number in range(count)])

    async def add_made(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Create ready nodes, each as `make_node` returns it."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def add(node: dict[str, Any]) -> None:
            name = node["metadata"]["name"]
            async with gate:
                await self.client.create(NODES, node)
                uid = await self._add_plugin(name) if self._own_plugins else ""
                annotations = {SERVES: f"NVIDIA;{uid}"} if uid else {}
                await self.client.patch(
                    NODES, name, {"spec": {"taints": None}, "metadata": {"annotations": annotations}}
                )

        await asyncio.gather(*map(add, nodes))

    async def _add_plugin(self, node: str) -> str:
        """Create the pod of a node's device plugin; return its UID."""
        spec = {
            "nodeName": node,
            "containers": [{"name": "plugin", "image": "none"}],
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
        }
        body = {"metadata": {"name": f"plugin-{node}", "labels": PLUGIN_LABELS}, "spec": spec}
        return (await self.client.create(PODS, body, namespace="default")).metadata.uid

    async def add_pods(self, names: Mapping[str, int], **spec: Any) -> list[Pod]:
        """Create pods that ask for so many MiB of a card, by name."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def add(name: str, memory_mib: int) -> Pod:
            async with gate:
                return await self.client.create(PODS, make_share_pod(name, memory_mib, **spec), namespace="default")

        return list(await asyncio.gather(*(add(name, memory_mib) for name, memory_mib in names.items())))

    async def start_gpuloom(self, *flags: str, through_proxy: bool = True) -> None:
        """Start gpuloom's scheduler and wait until it is ready."""
        kubeconfig = self.kubeconfig if through_proxy else self.control_plane.kubeconfig
        main, metrics = self._addresses
        command: list[str | Path] = [
            GPULOOM,
            "scheduler",
            f"--http_bind={main}",
            f"--metrics-bind-address={metrics}",
            f"--kubeconfig={kubeconfig}",
            *flags,
        ]
        self._gpuloom = ChildProcess("gpuloom scheduler", command, log=self._directory / "gpuloom.log")
        await asyncio.to_thread(self._gpuloom.wait_until, self._is_ready)

    async def kill_gpuloom(self) -> None:
        """End gpuloom's scheduler as a crash does."""
        if self._gpuloom is not None:
            await asyncio.to_thread(self._gpuloom.kill)

    async def stop_gpuloom(self) -> None:
        """End gpuloom's scheduler politely."""
        if self._gpuloom is not None:
            await asyncio.to_thread(self._gpuloom.stop)

    async def start_kube_scheduler(
        self,
        extender_url: str = "",
        *,
        prioritizes: bool = False,
        percent_of_nodes: int = 0,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Start kube-scheduler, with its limits on calls raised unless `settings` of its configuration say otherwise.

        It looks for nodes until it has this percentage of them, 0 for as many as it thinks right.
        """
        config = scheduler_configuration(extender_url or self.extender_url, prioritizes=prioritizes) | RAISED_LIMITS
        config |= {"percentageOfNodesToScore": percent_of_nodes, **settings}
        await asyncio.to_thread(self.control_plane.start_scheduler, config)

    async def read_metrics(self) -> str:
        """Return gpuloom's metrics."""
        return await asyncio.to_thread(read_url, self.metrics_url)

    def _is_ready(self) -> bool:
        try:
            read_url(f"{self.extender_url}/readyz")
        except (urllib.error.URLError, OSError):
            return False
        return True


def make_node(
    name: str,
    *,
    cards: int,
    memory_mib: int,
    slots: int,
    model: str = "NVIDIA A40",
    cpu: str = "64",
    memory: str = "256Gi",
) -> dict[str, Any]:
    """Return a ready node with so many cards of this size, each for so many containers."""
    registered = [
        Card(
            id=f"GPU-{name}-{number}",
            index=number,
            count=slots,
            memory_mib=memory_mib,
            cores=100,
            model=model,
            mode="hami-core",
            healthy=True,
        )
        for number in range(cards)
    ]
    room = {"cpu": cpu, "memory": memory, "pods": "250", "nvidia.com/gpu": str(cards * slots)}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "no kubelet is behind this node"}
    return {
        "metadata": {
            "name": name,
            "annotations": {
                "hami.io/node-nvidia-register": encode_register(registered),
                "hami.io/node-handshake": NEVER_DUE,
            },
        },
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def make_share_pod(name: str, memory_mib: int, *, cores: int = 0, cards: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a pod of one container that asks for a share of one card, or of several."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory_mib)}
    if cores:
        limits["nvidia.com/gpucores"] = str(cores)
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def read_url(url: str) -> str:
    """Return what a URL answers. Raise OSError when it does not, or not with success."""
    with urllib.request.urlopen(url, timeout=30) as reply:
        return str(reply.read().decode())
