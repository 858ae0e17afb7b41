"""A node agent and a simulated kubelet over real sockets, with a local API server."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.errors import NotFoundError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.node.agent import NodeAgent
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.objects import Node, Pod

NODE = "n1"
RESOURCE = "nvidia.com/gpu"
LOCK = "hami.io/mutex.lock"
DEADLINE_S = 60.0


async def wait_until(check: Callable[[], Awaitable[bool]]) -> None:
    """Poll until `check` holds, an object that is not there yet means it does not; TimeoutError after the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(NotFoundError):
                if await check():
                    return
            await asyncio.sleep(0.02)


async def hurry(seconds: float) -> None:
    """Let a hundred times less time pass than asked for."""
    await asyncio.sleep(seconds / 100)


@dataclass
class Site:
    """One node with its kubelet and agent, and the client that a test acts with."""

    client: KubeClient
    settings: NodeSettings
    machine: SimulatedMachine
    kubelet: SimulatedKubelet
    agent: NodeAgent

    async def node(self) -> Node:
        return await self.client.get(NODES, NODE)

    async def pod(self, name: str) -> Pod:
        return await self.client.get(PODS, name, namespace="default")

    async def annotate_node(self, annotations: Mapping[str, str | None]) -> None:
        await self.client.patch(NODES, NODE, {"metadata": {"annotations": dict(annotations)}})

    async def create_pod(
        self, name: str, *, init: Sequence[str] = (), containers: Sequence[str] = ("c",), count: int = 1, **spec: Any
    ) -> Pod:
        """A pod of our scheduler whose containers ask for `count` devices each."""
        limits = {"limits": {RESOURCE: str(count)}} if count else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"test": "node-agent"}},
            "spec": {
                "schedulerName": "hami-scheduler",
                "initContainers": [{"name": each, "image": "i", "resources": limits} for each in init],
                "containers": [{"name": each, "image": "i", "resources": limits} for each in containers],
                **spec,
            },
        }
        return await self.client.create(PODS, body, namespace="default")

    async def bind(self, pod: Pod, to_allocate: str) -> None:
        """What the scheduler does: lock the node, then bind with the annotations."""
        await self.annotate_node({LOCK: f"2026-01-01T00:00:00Z,{pod.namespace},{pod.name}"})
        await self.client.bind(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.metadata.uid,
            node=NODE,
            annotations={
                "hami.io/vgpu-node": NODE,
                "hami.io/vgpu-devices-to-allocate": to_allocate,
                "hami.io/vgpu-devices-allocated": to_allocate,
                "hami.io/bind-phase": "allocating",
                "hami.io/bind-time": "1767225600",
            },
            labels={},
        )

    async def wait_for_phase(self, name: str, phase: str) -> Pod:
        async def has_phase() -> bool:
            return (await self.pod(name)).status.phase == phase

        await wait_until(has_phase)
        return await self.pod(name)

    async def wait_until_gone(self, name: str) -> None:
        async def is_gone() -> bool:
            try:
                await self.pod(name)
            except NotFoundError:
                return True
            return False

        await wait_until(is_gone)

    async def wait_for_devices(self, count: int) -> None:
        async def are_allocatable() -> bool:
            reported = (await self.node()).status.allocatable or {}
            return self.kubelet.allocatable.get(RESOURCE) == count and reported.get(RESOURCE) == str(count)

        await wait_until(are_allocatable)

    async def wait_for_node_annotation(self, key: str, check: Callable[[str | None], bool]) -> None:
        async def holds() -> bool:
            return check((await self.node()).annotations.get(key))

        await wait_until(holds)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path is short enough for sockets; pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="gl-") as path:
        yield Path(path)


@asynccontextmanager
async def connect(server: LocalApiServer, directory: Path) -> AsyncIterator[KubeClient]:
    server.write_kubeconfig(directory / "kubeconfig")
    async with KubeClient(load_kubeconfig(directory / "kubeconfig"), sleep=hurry) as client:
        yield client


@pytest.fixture
async def local_server() -> AsyncIterator[LocalApiServer]:
    async with LocalApiServer() as server:
        yield server


@pytest.fixture
async def local_client(local_server: LocalApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with connect(local_server, tmp_path) as client:
        yield client


@pytest.fixture(params=["local", pytest.param("real", marks=pytest.mark.control_plane)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of the local API server, and of a real one that is left as it was found."""
    if request.param == "local":
        async with LocalApiServer() as server, connect(server, tmp_path) as client:
            yield client
        return
    async with KubeClient(load_kubeconfig(request.getfixturevalue("control_plane").kubeconfig)) as client:
        yield client
        await remove_everything(client)


async def remove_everything(client: KubeClient) -> None:
    pods, _ = await client.list_all(PODS, namespace="default", label_selector="test=node-agent")
    for pod in pods:
        await client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0)
    await client.delete(NODES, NODE)


@pytest.fixture
def settings(short_path: Path) -> NodeSettings:
    plugins_dir = short_path / "dp"
    plugins_dir.mkdir()
    host_root = short_path / "host"
    library = host_root / "usr/local/vgpu/libvgpu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    return NodeSettings(NODE, plugins_dir=plugins_dir, host_root=host_root)


@pytest.fixture
async def site(client: KubeClient, settings: NodeSettings) -> AsyncIterator[Site]:
    """Two T4 with ten replicas each, registered and known to the kubelet."""
    machine = SimulatedMachine(NODE, load_machine("two-t4"))
    async with (
        SimulatedKubelet(NODE, client, settings.plugins_dir) as kubelet,
        NodeAgent(settings, client, machine, sleep=hurry) as agent,
    ):
        site = Site(client, settings, machine, kubelet, agent)
        await site.wait_for_devices(20)
        yield site
