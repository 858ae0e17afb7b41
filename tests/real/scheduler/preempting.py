"""A real control plane, a scheduler in this process that makes room, and played plugins and kubelets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import aiohttp
from local.scheduler.churn import Book, Judge
from local.scheduler.clock import ManualClock, poll
from local.scheduler.site import DEFAULTS, HANDSHAKE, REGISTER, Site, card

from gpuloom.kube import NODES, PODS, ApiError, Applied, InitialObject, KubeClient, Reflector, load_kubeconfig
from gpuloom.local.manifests import pod_manifest
from gpuloom.model.card import Card
from gpuloom.scheduler import SchedulerProcess, SchedulerSettings
from gpuloom.scheduler.clocks import Clocks
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register
from harness.controlplane import ControlPlane
from harness.installation import scheduler_configuration
from harness.objects import create_ready_node
from harness.playedplugins import PlayedPlugins

ON = replace(DEFAULTS, preemption="on")
CLASSES = {"low": 10, "middle": 100, "high": 1000, "highest": 10000}
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ANSWER_S = 10.0


class RealTime(ManualClock):
    """The machine's clocks."""

    @property
    def clocks(self) -> Clocks:
        return Clocks()


class PlayedKubelets:
    """Kubelets of all nodes: bound pods run, deleted ones are gone after a while, except those that hang.

    gone_s  the loop's time at which pods were gone, by name
    """

    def __init__(self, client: KubeClient, *, ends_after_s: float = 0.3) -> None:
        self.hanging: set[str] = set()
        self.gone_s: dict[str, float] = {}
        self.bound_s: dict[str, float] = {}
        self._client = client
        self._ends_after_s = ends_after_s
        self._seen: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._start(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end(self, pod: Pod) -> None:
        """Let a pod be gone."""
        with suppress(ApiError):
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0, uid=pod.metadata.uid)
            self.gone_s[pod.name] = asyncio.get_running_loop().time()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        async with aclosing(Reflector(self._client, PODS).events()) as events:
            async for event in events:
                if isinstance(event, Applied | InitialObject) and event.object.spec.node_name:
                    self._take(event.object)

    def _take(self, pod: Pod) -> None:
        stage = "ends" if pod.is_terminating else "runs"
        if self._seen.get(pod.metadata.uid) == stage or pod.name in self.hanging:
            return
        self._seen[pod.metadata.uid] = stage
        if stage == "runs":
            self.bound_s.setdefault(pod.name, asyncio.get_running_loop().time())
        self._start(self._end_later(pod) if pod.is_terminating else self._run(pod))

    async def _end_later(self, pod: Pod) -> None:
        await asyncio.sleep(self._ends_after_s)
        await self.end(pod)

    async def _run(self, pod: Pod) -> None:
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
        body = {"status": {"phase": "Running", "conditions": ready}}
        with suppress(ApiError):
            await self._client.patch(
                PODS, pod.name, body, namespace=pod.namespace, subresource="status", lists_by_key=True
            )


class World(Site):
    """A site whose pods kube-scheduler places."""

    def __init__(self, plane: ControlPlane, client: KubeClient, session: aiohttp.ClientSession) -> None:
        super().__init__(None, client, RealTime(), session)
        self.plane = plane
        self.book = Book()
        self.kubelets: PlayedKubelets

    async def lead(self, settings: SchedulerSettings = ON) -> None:
        """Start a scheduler, which a judge observes, and kube-scheduler beside it."""
        self.process = SchedulerProcess(settings, self.client, make_observer=lambda state: Judge(state, self.book))
        await self.stack.enter_async_context(self.process)
        await self.process.wait_synced()
        await asyncio.to_thread(self.plane.start_scheduler, scheduler_configuration(self.process.url))

    async def kill(self) -> None:
        """End both."""
        await asyncio.to_thread(self.plane.stop_scheduler)
        await self.stack.aclose()

    async def add_node(self, name: str, memory_mib: int = 10000, cards: int = 1, **capacity: str) -> None:
        """Add a node with alike cards."""
        await self.add_node_of(name, [card(name, number, memory_mib=memory_mib) for number in range(cards)], **capacity)

    async def add_node_of(self, name: str, cards: Sequence[Card], **capacity: str) -> None:
        await asyncio.to_thread(create_ready_node, self.plane.api, name, capacity=capacity)
        annotations = {REGISTER: encode_register(cards)}
        await self.client.patch(NODES, name, {"metadata": {"annotations": annotations}})
        offered = {"nvidia.com/gpu": str(10 * len(cards))}
        await self.client.patch(
            NODES, name, {"status": {"capacity": offered, "allocatable": offered}}, subresource="status"
        )
        await poll(lambda: self.process.state.cluster.has(name))

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
        return self.process.state.pods[pod.metadata.uid].spec.node_name

    def is_bound(self, pod: Pod) -> bool:
        """Tell whether the scheduler has seen a pod bound."""
        seen = self.process.state.pods.get(pod.metadata.uid)
        return seen is not None and bool(seen.spec.node_name)

    async def wait_leaving(self, *pods: Pod) -> None:
        state = self.process.state
        await wait(lambda: all(one.metadata.uid in state.gone or state.is_leaving(one.metadata.uid) for one in pods))

    async def wait_nominated(self, pod: Pod) -> None:
        await wait(lambda: self.process.state.nominations.find(pod.metadata.uid) is not None)

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
        for name in list(world.process.state.nodes) if hasattr(world, "process") else ():
            with suppress(ApiError):
                body = {"metadata": {"annotations": {HANDSHAKE: f"Reported {world.clock.clocks.now()}"}}}
                await client.patch(NODES, name, body)
        await asyncio.sleep(ANSWER_S)


@asynccontextmanager
async def open_world(plane: ControlPlane) -> AsyncIterator[World]:
    """Open a world; all that is in it is gone at the end."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(load_kubeconfig(plane.kubeconfig)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        world = World(plane, client, session)
        stack.push_async_callback(_clean, plane)
        await stack.enter_async_context(PlayedPlugins(client))
        world.kubelets = await stack.enter_async_context(PlayedKubelets(client))
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
