"""A real control plane, a scheduler in this process that makes room, and played plugins and kubelets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp
from local.scheduler.churn import Book, Judge
from local.scheduler.clock import ManualClock, poll
from local.scheduler.site import DEFAULTS, HANDSHAKE, REGISTER, Site, card
from real.scheduler.holding import HeldClient, Hold, Write

from gpuloom.kube import NODES, PODS, ApiError, KubeClient, load_kubeconfig
from gpuloom.local.manifests import pod_manifest
from gpuloom.model.card import Card
from gpuloom.scheduler import SchedulerProcess, SchedulerSettings
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.keys import NODE_SERVES
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register
from harness.accounts import COMPONENT, PLUGIN
from harness.controlplane import ControlPlane
from harness.installation import NVIDIA_RESOURCES, scheduler_configuration
from harness.objects import create_priority_class, create_ready_node
from harness.playedkubelets import PlayedKubelets
from harness.playedplugins import PlayedPlugins

ON = replace(DEFAULTS, preemption="on")
CLASSES = {"low": 10, "middle": 100, "high": 1000, "highest": 10000}
XPU = "kunlunxin.com/xpu"
ANSWER_S = 10.0


class RealTime(ManualClock):
    """The machine's clocks."""

    @property
    def clocks(self) -> Clocks:
        return Clocks()


def create_classes(plane: ControlPlane) -> None:
    """Create the priority classes, and one whose pods never preempt."""
    for name, value in CLASSES.items():
        create_priority_class(plane.api, name, value)
    create_priority_class(plane.api, "never", 1000, preemptionPolicy="Never")


class World(Site):
    """A site whose pods kube-scheduler places; the scheduler has a client of its own."""

    def __init__(
        self, plane: ControlPlane, client: KubeClient, own: HeldClient, session: aiohttp.ClientSession
    ) -> None:
        super().__init__(None, client, RealTime(), session)
        self.plane = plane
        self._own = own
        self.book = Book()
        self.kubelets: PlayedKubelets

    async def lead(self, settings: SchedulerSettings = ON) -> None:
        """Start a scheduler, which a judge observes, and kube-scheduler beside it."""
        self.process = SchedulerProcess(settings, self._own, make_observer=self._make_judge)
        await self.stack.enter_async_context(self.process)
        await self.process.wait_synced()
        configuration = scheduler_configuration(self.process.url, resources=(*NVIDIA_RESOURCES, XPU))
        await asyncio.to_thread(self.plane.start_scheduler, configuration)

    def _make_judge(self, state: SchedulerState) -> Judge:
        return Judge(state, self.book, self.list_evicted)

    def hold(self, write: Write, *, is_after: bool) -> Hold:
        """Let the scheduler stop before or after a write, for good."""
        hold = Hold(write, is_after)
        self._own.holds.append(hold)
        return hold

    async def kill(self) -> None:
        """End both."""
        for hold in self._own.holds:
            hold.end()
        await self.stack.aclose()
        await asyncio.to_thread(self.plane.stop_scheduler)
        self._own.holds.clear()

    async def add_node(self, name: str, memory_mib: int = 10000, cards: int = 1, **capacity: str) -> None:
        """Add a node with alike cards."""
        await self.add_node_of(name, [card(name, number, memory_mib=memory_mib) for number in range(cards)], **capacity)

    async def add_node_of(self, name: str, cards: Sequence[Card], **capacity: str) -> None:
        """Add a node on which gpuloom's device plugin runs, which needs no node lock."""
        await asyncio.to_thread(create_ready_node, self.plane.api, name, capacity=capacity)
        plugin = await self._add_plugin(name)
        annotations = {REGISTER: encode_register(cards), NODE_SERVES: f"NVIDIA;{plugin.metadata.uid}"}
        await self.client.patch(NODES, name, {"metadata": {"annotations": annotations}})
        offered = {"nvidia.com/gpu": str(10 * len(cards))}
        await self.client.patch(
            NODES, name, {"status": {"capacity": offered, "allocatable": offered}}, subresource="status"
        )
        await poll(lambda: self.process.state.cluster.has(name))

    async def add_xpu_node(self, name: str) -> None:
        """Add a node with eight XPUs in two wings, whose plugin is their vendor's."""
        await asyncio.to_thread(create_ready_node, self.plane.api, name, capacity={XPU: "8"})
        await poll(lambda: self.process.state.cluster.has(name))

    async def create_on_xpus(self, name: str, cards: int, importance: str, uuid: str = "") -> Pod:
        """Create a pod that asks for whole XPUs, or for the one with this UUID."""
        container = {"name": "main", "image": "i", "resources": {"limits": {XPU: str(cards)}}}
        spec = {"schedulerName": "hami-scheduler", "priorityClassName": importance, "containers": [container]}
        metadata = {"name": name, "annotations": {"hami.io/use-xpu-uuid": uuid} if uuid else {}}
        pod = {"metadata": metadata, "spec": {**spec, "automountServiceAccountToken": False}}
        return await self.client.create(PODS, pod, namespace="default")

    async def _add_plugin(self, node: str) -> Pod:
        spec = {"nodeName": node, "containers": [{"name": "plugin", "image": "none"}]}
        metadata = {"name": f"plugin-{node}", "labels": {COMPONENT: PLUGIN}}
        more = {"priorityClassName": "highest", "automountServiceAccountToken": False}
        return await self.client.create(PODS, {"metadata": metadata, "spec": spec | more}, namespace="default")

    async def create(self, name: str, memory_mib: int, importance: str, cpu: str = "0", **more: Any) -> Pod:
        """Create a pod of a priority class; one that asks for no memory asks for no card."""
        manifest = pod_manifest(name, cards=min(memory_mib, 1), memory_mib=memory_mib)
        manifest["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
        manifest["metadata"]["labels"] = {"app": name.split("-", maxsplit=1)[0]}
        manifest["spec"] |= {
            "schedulerName": "hami-scheduler",
            "priorityClassName": importance,
            "automountServiceAccountToken": False,
            **more,
        }
        pod = await self.client.create(PODS, manifest, namespace="default")
        self.book.memory_mib[pod.metadata.uid], self.book.priority[pod.metadata.uid] = memory_mib, pod.priority
        return pod

    async def run(self, name: str, memory_mib: int, importance: str, **more: Any) -> Pod:
        """Create a pod and wait until it is bound."""
        await self.create(name, memory_mib, importance, **more)
        await wait(lambda: name in self.kubelets.bound_s)
        if memory_mib:
            await self.wait_node(await self.pod(name))
        return await self.pod(name)

    async def wait_node(self, pod: Pod, timeout_s: float = 30.0) -> str:
        """Wait until a pod is bound, and return its node."""
        await wait(lambda: self.is_bound(pod), timeout_s)
        return self.process.state.shown.pods[pod.metadata.uid].spec.node_name

    def is_bound(self, pod: Pod) -> bool:
        """Tell whether the scheduler has seen a pod bound."""
        seen = self.process.state.shown.pods.get(pod.metadata.uid)
        return seen is not None and bool(seen.spec.node_name)

    async def wait_leaving(self, *pods: Pod) -> None:
        state = self.process.state
        await wait(
            lambda: all(
                one.metadata.uid in state.shown.gone or state.shown.is_terminating(one.metadata.uid) for one in pods
            )
        )

    def last_words(self, pod: Pod) -> str:
        """Return what kube-scheduler said last about a pod, as the watch has shown it."""
        seen = self.process.state.shown.pods[pod.metadata.uid]
        return seen.last_words if isinstance(seen, HostPod) else ""

    async def wait_nominated(self, pod: Pod) -> None:
        await wait(lambda: self.process.state.nominations.find(pod.metadata.uid) is not None)

    async def read_grace(self, name: str) -> int:
        """Return how many seconds a pod that was asked to leave has for it."""
        found = await asyncio.to_thread(self.plane.api.get, f"/api/v1/namespaces/default/pods/{name}")
        return int(found["metadata"]["deletionGracePeriodSeconds"])

    async def stays(self, *pods: Pod) -> None:
        """See that pods are as they were."""
        for pod in pods:
            assert not (await self.pod(pod.name)).is_terminating, pod.name

    def exceeded(self) -> Mapping[str, int]:
        """Return the cards of which more is given away than they have."""
        ledger, found = self.process.state.cluster.ledger, {}
        for node in self.process.state.cluster.nodes:
            for one in self.process.state.cluster.registered(node, "NVIDIA").cards:  # type: ignore[union-attr]
                used = ledger.usage((node, "NVIDIA", one.id)).memory_mib
                if used > one.memory_mib:
                    found[one.id] = used
        return found


async def wait(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait until something is so; TimeoutError when it never is."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.01)


async def _answer_handshakes(client: KubeClient, world: World) -> None:
    """Say that plugins live, as they do every half minute."""
    while True:
        for name in list(world.process.state.shown.nodes) if hasattr(world, "process") else ():
            with suppress(ApiError):
                body = {"metadata": {"annotations": {HANDSHAKE: f"Reported {world.clock.clocks.now()}"}}}
                await client.patch(NODES, name, body)
        await asyncio.sleep(ANSWER_S)


@asynccontextmanager
async def open_world(plane: ControlPlane) -> AsyncIterator[World]:
    """Open a world; all that is in it is gone at the end."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(load_kubeconfig(plane.kubeconfig)))
        own = await stack.enter_async_context(HeldClient(load_kubeconfig(plane.kubeconfig)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        world = World(plane, client, own, session)
        stack.push_async_callback(_clean, plane)
        await stack.enter_async_context(PlayedPlugins(client))
        world.kubelets = await stack.enter_async_context(PlayedKubelets(client))
        world.book.bound = world.kubelets.bound
        answering = asyncio.create_task(_answer_handshakes(client, world))
        stack.callback(answering.cancel)
        stack.push_async_callback(world.kill)
        await world.lead()
        yield world


async def _clean(plane: ControlPlane) -> None:
    def clean() -> None:
        for path in ("/api/v1/namespaces/default/pods", "/api/v1/nodes"):
            for item in plane.api.get(path)["items"]:
                with suppress(Exception):
                    plane.api.delete(f"{path}/{item['metadata']['name']}?gracePeriodSeconds=0")

    await asyncio.to_thread(clean)
