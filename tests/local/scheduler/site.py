"""A scheduler process beside a local API server, and what kube-scheduler, kubelets and people do to them."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from local.scheduler.clock import ManualClock, poll

from gpuloom.kube import EVENTS, NODES, PODS, KubeClient, NotFoundError, load_kubeconfig
from gpuloom.local.apiserver import InjectedFault, LocalApiServer
from gpuloom.local.manifests import pod_manifest
from gpuloom.model.card import Card
from gpuloom.scheduler import SchedulerProcess, SchedulerSettings
from gpuloom.wire.objects import Event, Node, Pod
from gpuloom.wire.register import encode_register

LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
VGPU_NODE = "hami.io/vgpu-node"
PHASE = "hami.io/bind-phase"
DEFAULTS = SchedulerSettings(http_bind="127.0.0.1:0", metrics_bind_address="", scheduler_name="hami-scheduler")


def card(node: str, position: int = 0, *, count: int = 10, memory_mib: int = 10000, healthy: bool = True) -> Card:
    return Card(
        id=f"GPU-{node}-{position}",
        index=position,
        count=count,
        memory_mib=memory_mib,
        cores=100,
        model="NVIDIA A40",
        mode="hami-core",
        healthy=healthy,
    )


def offer(count: int) -> dict[str, dict[str, str]]:
    return {"capacity": {"nvidia.com/gpu": str(count)}, "allocatable": {"nvidia.com/gpu": str(count)}}


def share_of(node: str = "n1", memory_mib: int = 3000) -> dict[str, str]:
    """The annotations that bind a pod to a share of the node's first card."""
    shares = f"GPU-{node}-0,NVIDIA,{memory_mib},0:;"
    return {VGPU_NODE: node, ALLOCATED: shares, TO_ALLOCATE: shares, PHASE: "allocating"}


class Site:
    """One process under test. ``rivals`` and ``restart`` make more of them over the same API server."""

    def __init__(self, server: Any, client: KubeClient, clock: ManualClock, session: Any) -> None:
        self.server: LocalApiServer = server
        self.client = client
        self.clock = clock
        self.session: aiohttp.ClientSession = session
        self.stack = AsyncExitStack()
        self.process: SchedulerProcess

    async def start(self, settings: SchedulerSettings = DEFAULTS) -> SchedulerProcess:
        self.process = SchedulerProcess(settings, self.client, clocks=self.clock.clocks)
        await self.stack.enter_async_context(self.process)
        return self.process

    def list_evicted(self) -> Collection[str]:
        """Return the UIDs of the pods that the scheduler has asked to leave."""
        return self.process.parts.preemption.evictor.evicted

    async def restart(self, settings: SchedulerSettings = DEFAULTS) -> None:
        await self.stack.aclose()
        await self.start(settings)
        await self.process.wait_synced()

    async def register(
        self,
        name: str,
        *cards: Card,
        text: str | None = None,
        count: int = 10,
        annotations: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Node:
        """Make a node with cards, whose kubelet offers ``count`` shares, and wait until the scheduler has seen it."""
        said = encode_register(cards or (card(name),)) if text is None else text
        metadata = {"name": name, "annotations": {REGISTER: said, **(annotations or {})}, "labels": labels or {}}
        node = await self.client.create(NODES, {"metadata": metadata, "status": offer(count)})
        await poll(lambda: name in self.process.state.shown.nodes)
        return node

    async def wait_for_pod(self, pod: Pod) -> None:
        """Wait until the scheduler has seen a pod as it is here."""
        uid, version = pod.metadata.uid, int(pod.metadata.resource_version)
        await poll(lambda: int(self.process.state.shown.pods[uid].metadata.resource_version) >= version)

    async def offer(self, name: str, count: int) -> None:
        """Let the kubelet offer so many shares, and wait until the scheduler has seen it."""
        node = await self.client.patch(NODES, name, {"status": offer(count)}, subresource="status")
        await self.wait_for_node(node)

    async def wait_bound(self, pod: Pod) -> None:
        """Wait until the scheduler's watch shows a pod bound."""
        uid = pod.metadata.uid
        await poll(
            lambda: uid in self.process.state.shown.pods and bool(self.process.state.shown.pods[uid].spec.node_name)
        )

    async def wait_for_node(self, node: Node) -> None:
        version = int(node.metadata.resource_version)
        await poll(lambda: int(self.process.state.shown.nodes[node.name].metadata.resource_version) >= version)

    async def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change a node's annotations, and wait until the scheduler has seen it."""
        node = await self.client.patch(NODES, name, {"metadata": {"annotations": dict(annotations)}})
        await self.wait_for_node(node)

    async def submit(self, name: str = "p", *, seen: bool = True, spec: Any = None, **request: Any) -> Pod:
        """Create a pod that asks for a share of a card; ``seen``: wait until the scheduler's watch shows it."""
        manifest = pod_manifest(name, **{"memory_mib": 3000} | request)
        manifest["spec"] |= {"schedulerName": "hami-scheduler", **(spec or {})}
        pod = await self.client.create(PODS, manifest, namespace=manifest["metadata"]["namespace"])
        if seen:
            await poll(lambda: pod.metadata.uid in self.process.state.shown.pods)
        return pod

    async def call(self, verb: str, body: Any) -> Any:
        url, headers = f"{self.process.url}/{verb}", {"Content-Type": "application/json"}
        async with self.session.post(url, data=msgspec.json.encode(body), headers=headers) as reply:
            assert reply.status == 200
            return await reply.json()

    async def filter(self, pod: Pod, *nodes: str) -> Any:
        """Ask as kube-scheduler does; the whole reply."""
        return await self.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": nodes or ("n1",)})

    async def choose(self, pod: Pod, *nodes: str) -> str | None:
        """Ask where a pod may run: the node, or None when it fits nowhere."""
        reply = await self.filter(pod, *nodes)
        assert reply["Error"] == ""
        return reply["NodeNames"][0] if reply["NodeNames"] else None

    async def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Ask as kube-scheduler does before it evicts pods: who leaves each node, by UID; no node where it is told to
        ask later."""
        meta = {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in victims.items()}
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
        url, headers = f"{self.process.url}/preempt", {"Content-Type": "application/json"}
        async with self.session.post(url, data=msgspec.json.encode(body), headers=headers) as reply:
            found = (await reply.json())["NodeNameToMetaVictims"] if reply.status == 200 else {}
        return {node: [one["UID"] for one in said["Pods"]] for node, said in found.items()}

    async def bind(self, pod: Pod, node: str = "n1", *, uid: str | None = None) -> str:
        """Ask as kube-scheduler does; the error of the reply, empty for success."""
        args = {"PodName": pod.name, "PodNamespace": pod.namespace, "Node": node}
        reply = await self.call("bind", args | {"PodUID": pod.metadata.uid if uid is None else uid})
        return str(reply["Error"])

    def start_bind(self, pod: Pod, node: str = "n1") -> "asyncio.Task[str]":
        return asyncio.create_task(self.bind(pod, node))

    async def pod(self, name: str = "p") -> Pod:
        return await self.client.get(PODS, name, namespace="default")

    async def has_pod(self, name: str = "p") -> bool:
        try:
            await self.pod(name)
        except NotFoundError:
            return False
        return True

    async def remove(self, pod: Pod) -> None:
        """Delete a pod at once, and wait until the scheduler has seen it."""
        await self.client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0)
        await poll(lambda: pod.metadata.uid not in self.process.state.shown.pods)

    async def change_pod(self, name: str, body: Any, *, subresource: str = "") -> Pod:
        return await self.client.patch(PODS, name, body, namespace="default", subresource=subresource)

    async def lock(self, node: str = "n1") -> str | None:
        return (await self.client.get(NODES, node)).annotations.get(LOCK)

    async def unlock(self, node: str = "n1") -> None:
        """What the device plugin does at the end of an allocation."""
        await self.annotate(node, {LOCK: None})

    async def bind_by_another(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Bind a pod as another scheduler would."""
        await self.client.bind(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.metadata.uid,
            node=node,
            annotations=annotations,
            labels={},
            timeout_s=5,
        )

    async def free_mib(self, *nodes: str) -> int:
        """How much of the cards of nodes can still be had, found out by asking for it (by a pod that is not there)."""
        low, high = 0, 100_000
        while low < high:
            middle = (low + high + 1) // 2
            if await self.choose(_probe(middle), *nodes) is not None:
                low = middle
            else:
                high = middle - 1
        await self.choose(_probe(200_000), *nodes)
        return low

    async def events(self, name: str = "p") -> Sequence[Event]:
        found, _ = await self.client.list_all(EVENTS, namespace="default")
        return [event for event in found if event.involved_object.name == name]

    async def wait_event(self, reason: str, name: str = "p") -> Event:
        async with asyncio.timeout(60):
            while True:
                for event in await self.events(name):
                    if event.reason == reason:
                        return event
                await asyncio.sleep(0.01)

    def fail(self, method: str, path: str, **fault: Any) -> InjectedFault:
        """Let the API server fail the next request like this; the fault is gone when it has happened."""
        made = InjectedFault(method=method, path=path, **fault)
        self.server.faults.add(made)
        return made

    def has_happened(self, fault: InjectedFault) -> bool:
        return fault not in self.server.faults.waiting


def _probe(memory_mib: int) -> Pod:
    """A pod that no API server knows."""
    metadata = {"name": "probe", "namespace": "default", "uid": "probe"}
    return msgspec.convert(pod_manifest("probe", memory_mib=memory_mib) | {"metadata": metadata}, Pod)


@asynccontextmanager
async def open_site(directory: Path, clock: ManualClock | None = None) -> AsyncIterator[Site]:
    """An API server and a client; the scheduler is for the test to start."""
    clock = clock or ManualClock()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(LocalApiServer(tls=False, clock=clock.now))
        server.write_kubeconfig(directory / "kubeconfig")
        credentials = load_kubeconfig(directory / "kubeconfig")
        client = await stack.enter_async_context(KubeClient(credentials, sleep=clock.sleep))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        site = Site(server, client, clock, session)
        stack.push_async_callback(site.stack.aclose)
        yield site
