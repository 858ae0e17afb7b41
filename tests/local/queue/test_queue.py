import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import EVENTS, NODES, PODS, Resource
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.queue import ExtenderClient, PodQueue
from gpuloom.local.waiting import Key, wait_until
from gpuloom.wire.objects import Event, KubeObject, KubeStruct, Pod

TIMEOUT_S = 60.0


class ConditionedStatus(KubeStruct, frozen=True):
    conditions: list[dict[str, Any]] | None = None


class ConditionedPod(KubeObject, frozen=True):
    status: ConditionedStatus = ConditionedStatus()

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return self.status.conditions or []


CONDITIONED_PODS = Resource("", "v1", "pods", "Pod", ConditionedPod, namespaced=True)
SCHEDULER = "test-scheduler"


class ManualTime:
    """A clock that moves only when a test says so."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._waiting: list[asyncio.Event] = []
        self.waits: list[float | None] = []

    def now(self) -> float:
        return self._now

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        self.waits.append(timeout_s)
        self._waiting = [event]
        await event.wait()

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for event in self._waiting:
            event.set()


class ScriptedExtender:
    """Answers as a test tells it to, and keeps what it was asked; `tried` counts calls so that tests can wait."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.filtered: list[dict[str, Any]] = []
        self.bound: list[dict[str, Any]] = []
        self.refusals: Mapping[str, str] | None = None
        self.filter_status = 200
        self.bind_error = ""
        self.bind_gate = asyncio.Event()
        self.bind_gate.set()
        self.called = asyncio.Condition()
        self.url = ""

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/filter", self.filter)
        app.router.add_post("/bind", self.bind)
        return app

    async def filter(self, request: web.Request) -> web.Response:
        body = await request.json()
        await self._note(self.filtered, body)
        names: Sequence[str] = [] if self.refusals is not None else body["NodeNames"][:1]
        answer = {"Nodes": None, "NodeNames": names, "FailedNodes": self.refusals, "Error": ""}
        return web.json_response(answer, status=self.filter_status)

    async def bind(self, request: web.Request) -> web.Response:
        body = await request.json()
        error = self.bind_error
        await self._note(self.bound, body)
        await self.bind_gate.wait()
        if not error:
            await self.client.bind(
                namespace=body["PodNamespace"],
                name=body["PodName"],
                uid=body["PodUID"],
                node=body["Node"],
                annotations={},
                labels={},
            )
        return web.json_response({"Error": error})

    async def _note(self, calls: list[dict[str, Any]], body: dict[str, Any]) -> None:
        async with self.called:
            calls.append(body)
            self.called.notify_all()

    async def wait_filtered(self, count: int) -> None:
        async with self.called, asyncio.timeout(TIMEOUT_S):
            await self.called.wait_for(lambda: len(self.filtered) >= count)

    async def wait_bound(self, count: int) -> None:
        async with self.called, asyncio.timeout(TIMEOUT_S):
            await self.called.wait_for(lambda: len(self.bound) >= count)


@pytest.fixture
def clock() -> ManualTime:
    return ManualTime()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with LocalApiServer(tls=False) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient(load_kubeconfig(tmp_path / "kubeconfig")) as client:
            for name in ("n1", "n2", "n3"):
                await client.create(NODES, {"metadata": {"name": name}})
                await make_ready(client, name)
            yield client


@pytest.fixture
async def extender(client: KubeClient, clock: ManualTime) -> AsyncIterator[ScriptedExtender]:
    async with AsyncExitStack() as stack:
        extender = ScriptedExtender(client)
        runner = web.AppRunner(extender.application(), shutdown_timeout=0.1)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        extender.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        recorder = await stack.enter_async_context(EventRecorder(client, SCHEDULER))
        caller = await stack.enter_async_context(ExtenderClient(extender.url))
        queue = PodQueue(client, caller, recorder, SCHEDULER, backoff_initial_s=1, backoff_max_s=10, time=clock)
        await stack.enter_async_context(queue)
        yield extender


async def make_ready(client: KubeClient, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    await client.patch(NODES, name, {"status": {"conditions": conditions}}, subresource="status")


async def submit(client: KubeClient, name: str, *, cards: int = 1, **spec: Any) -> Pod:
    manifest = pod_manifest(name, cards=cards)
    manifest["spec"] |= {"schedulerName": SCHEDULER, **spec}
    return await client.create(PODS, manifest, namespace="default")


async def wait_assigned(client: KubeClient, *names: str) -> Mapping[Key, Pod]:
    def holds(pods: Mapping[Key, Pod]) -> bool:
        found = [pods.get(("default", name)) for name in names]
        return all(pod is not None and pod.spec.node_name for pod in found)

    return await wait_until(client, PODS, holds, timeout_s=TIMEOUT_S)


async def wait_event(client: KubeClient, reason: str) -> Event:
    def holds(events: Mapping[Key, Event]) -> bool:
        return any(event.reason == reason for event in events.values())

    events = await wait_until(client, EVENTS, holds, timeout_s=TIMEOUT_S)
    return next(event for event in events.values() if event.reason == reason)


async def test_a_pod_with_cards_is_bound_where_the_extender_says(
    client: KubeClient, extender: ScriptedExtender
) -> None:
    pod = await submit(client, "a")
    await wait_assigned(client, "a")
    assert extender.bound == [
        {"PodName": "a", "PodNamespace": "default", "PodUID": pod.metadata.uid, "Node": "n1"},
    ]


async def test_the_extender_gets_the_whole_pod_and_the_names_of_the_nodes(
    client: KubeClient, extender: ScriptedExtender
) -> None:
    await submit(client, "a", terminationGracePeriodSeconds=7)
    await extender.wait_filtered(1)
    asked = extender.filtered[0]
    assert (asked["Pod"]["spec"]["terminationGracePeriodSeconds"], asked["Nodes"], asked["NodeNames"]) == (
        7,
        None,
        ["n1", "n2", "n3"],
    )


async def test_a_cordoned_node_is_not_offered(client: KubeClient, extender: ScriptedExtender) -> None:
    await client.patch(NODES, "n2", {"spec": {"unschedulable": True}})
    await submit(client, "a", nodeSelector={"never": "there"})
    message = (await wait_event(client, "FailedScheduling")).message
    assert message == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
    )


async def test_a_pod_without_cards_is_bound_without_the_extender(
    client: KubeClient, extender: ScriptedExtender
) -> None:
    await submit(client, "plain", cards=0)
    await wait_assigned(client, "plain")
    assert extender.filtered == []


async def test_a_pod_of_another_scheduler_is_left_alone(client: KubeClient, extender: ScriptedExtender) -> None:
    await client.create(PODS, pod_manifest("other"), namespace="default")
    await submit(client, "mine")
    pods = await wait_assigned(client, "mine")
    assert not pods["default", "other"].spec.node_name


async def test_a_pod_is_not_tried_before_its_gate_is_removed(client: KubeClient, extender: ScriptedExtender) -> None:
    await submit(client, "gated", schedulingGates=[{"name": "demo/hold"}])
    await submit(client, "free")
    pods = await wait_assigned(client, "free")
    assert not pods["default", "gated"].spec.node_name
    await client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace="default")
    await wait_assigned(client, "gated")
    assert [asked["Pod"]["metadata"]["name"] for asked in extender.filtered] == ["free", "gated"]


async def test_a_refused_pod_gets_kube_schedulers_event(client: KubeClient, extender: ScriptedExtender) -> None:
    extender.refusals = {"n1": "no", "n2": "no", "n3": "never"}
    await submit(client, "a")
    event = await wait_event(client, "FailedScheduling")
    assert event.message == "0/3 nodes are available: 1 never, 2 no."


async def test_a_refused_pod_gets_kube_schedulers_condition(client: KubeClient, extender: ScriptedExtender) -> None:
    extender.refusals = {"n1": "no", "n2": "no", "n3": "no"}
    await submit(client, "a")
    await wait_until(client, CONDITIONED_PODS, lambda pods: any(pod.conditions for pod in pods.values()), timeout_s=60)
    pod = await client.get(CONDITIONED_PODS, "a", namespace="default")
    assert [(one["type"], one["status"], one["reason"]) for one in pod.conditions] == [
        ("PodScheduled", "False", "Unschedulable"),
    ]


async def test_a_refused_pod_waits_for_an_event_however_long_its_backoff_is_over(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.refusals = {"n1": "no"}
    await submit(client, "a")
    await wait_event(client, "FailedScheduling")
    clock.advance(100)
    extender.refusals = None
    await submit(client, "b")
    pods = await wait_assigned(client, "b")
    assert not pods["default", "a"].spec.node_name


async def test_a_refused_pod_is_tried_again_when_an_assigned_pod_goes(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    await submit(client, "first")
    await wait_assigned(client, "first")
    extender.refusals = {"n1": "no"}
    await submit(client, "a")
    await wait_event(client, "FailedScheduling")
    clock.advance(100)
    extender.refusals = None
    await client.delete(PODS, "first", namespace="default", grace_period_s=0)
    await wait_assigned(client, "a")


async def test_a_refused_pod_is_tried_again_when_it_is_woken_by_an_annotation(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.refusals = {"n1": "no"}
    await submit(client, "a")
    await wait_event(client, "FailedScheduling")
    clock.advance(100)
    extender.refusals = None
    woken = {"metadata": {"annotations": {"gpuloom.io/woken": "2026-01-01T00:00:00Z"}}}
    await client.patch(PODS, "a", woken, namespace="default")
    await wait_assigned(client, "a")


async def test_a_refused_pod_is_tried_again_when_a_node_changes(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.refusals = {"n1": "no"}
    await submit(client, "a")
    await wait_event(client, "FailedScheduling")
    clock.advance(100)
    extender.refusals = None
    await client.patch(NODES, "n1", {"metadata": {"annotations": {"k": "v"}}})
    await wait_assigned(client, "a")


async def test_a_refused_pod_is_tried_again_after_five_minutes(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.refusals = {"n1": "no"}
    await submit(client, "a")
    await wait_event(client, "FailedScheduling")
    extender.refusals = None
    clock.advance(301)
    await wait_assigned(client, "a")


async def test_a_failed_bind_is_tried_again_after_the_backoff(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.bind_error = "node is locked"
    await submit(client, "a")
    event = await wait_event(client, "FailedScheduling")
    extender.bind_error = ""
    clock.advance(2)
    await wait_assigned(client, "a")
    assert event.message == "binding rejected: node is locked"


async def test_an_extender_that_fails_is_asked_again_after_the_backoff(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.filter_status = 500
    await submit(client, "a")
    event = await wait_event(client, "FailedScheduling")
    extender.filter_status = 200
    clock.advance(2)
    await wait_assigned(client, "a")
    assert event.message.startswith(f"extender {extender.url}/filter answered HTTP 500")


async def test_a_slow_bind_holds_up_nobody_else(client: KubeClient, extender: ScriptedExtender) -> None:
    extender.bind_gate.clear()
    await submit(client, "a")
    await submit(client, "b")
    await extender.wait_bound(2)
    extender.bind_gate.set()
    pods = await wait_assigned(client, "a", "b")
    assert len(pods) == 2


async def test_a_pod_deleted_while_it_waits_is_not_tried_again(
    client: KubeClient, extender: ScriptedExtender, clock: ManualTime
) -> None:
    extender.refusals = {"n1": "no"}
    await submit(client, "gone")
    await wait_event(client, "FailedScheduling")
    await client.delete(PODS, "gone", namespace="default")
    extender.refusals = None
    clock.advance(301)
    await submit(client, "b")
    await wait_assigned(client, "b")
    assert [call["Pod"]["metadata"]["name"] for call in extender.filtered] == ["gone", "b"]


async def test_a_bound_pod_gets_kube_schedulers_event(client: KubeClient, extender: ScriptedExtender) -> None:
    await submit(client, "a")
    event = await wait_event(client, "Scheduled")
    assert event.message == "Successfully assigned default/a to n1"
