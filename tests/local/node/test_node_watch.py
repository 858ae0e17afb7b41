"""Allocate with a watch of the node's pods: no read while it tells; what it does not tell closes (binding 9)."""

import asyncio

import pytest
from local.node.conftest import wait_until
from local.node.unlocked import ALLOCATED, ID, LOCK, ONE, PHASE, RESOURCE, TO_ALLOCATE, Scene, count_calls
from structlog.testing import capture_logs

from gpuloom.kube import annotations
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.node import finding
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.errors import AllocationError
from gpuloom.node.nodepods import NodePods
from gpuloom.node.nodewatch import LateRelease, NodeWatch
from gpuloom.node.preference import PreferenceRequest

SMALL = "GPU-a,NVIDIA,1000,10:;"
SERVED = {PHASE: "success", TO_ALLOCATE: ";"}
RUNNING = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}


class Looks:
    """The pauses of the one who looks for locks: each lasts until the test lets it end."""

    def __init__(self):
        self.begun = asyncio.Event()
        self._may_end = asyncio.Event()

    async def pause(self, seconds):
        del seconds
        self.begun.set()
        await self._may_end.wait()
        self._may_end.clear()

    async def end(self):
        """End a pause that has begun or will."""
        async with asyncio.timeout(60):
            await self.begun.wait()
        self.begun.clear()
        self._may_end.set()


class Watched(Scene):
    """A node whose plugin watches its pods; ``stop`` makes the watch show nothing more."""

    def __init__(self, client, settings):
        super().__init__(client, settings)
        self.looks = Looks()
        self.pods = NodePods(client, bound_pods(RESOURCE), "n1")
        self.locks = LateRelease(client, "n1", sleep=self.looks.pause)
        self.restart(NodeWatch(self.pods, self.locks))
        self._tasks = [asyncio.create_task(self.pods.run()), asyncio.create_task(self.locks.run())]

    async def stop(self):
        self._tasks[0].cancel()
        await asyncio.wait(self._tasks[:1])

    async def has_no_lock(self):
        return not await self.has_lock()

    def watch_again(self):
        self._tasks[0] = asyncio.create_task(self.pods.run())

    async def look_again(self):
        self._tasks[1].cancel()
        await asyncio.wait(self._tasks[1:])
        self._tasks[1] = asyncio.create_task(self.locks.run())

    async def leave(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def shows(self, *names):
        """Wait until the watch shows just these pods, as they are."""
        present = {name: await self.client.get(PODS, name, namespace="default") for name in names}
        versions = {name: pod.metadata.resource_version for name, pod in present.items()}
        async with asyncio.timeout(60):
            while not self.pods.is_listed or versions != {  # noqa: ASYNC110 - a watch announces nothing
                pod.name: pod.metadata.resource_version for pod in self.pods.all
            }:
                await asyncio.sleep(0.01)

    async def serve(self, name):
        """Another process of the plugin serves a pod, and its kubelet takes it in."""
        await self.annotate(name, **SERVED)
        await self.client.patch(PODS, name, RUNNING, namespace="default", subresource="status")

    async def remove(self, name):
        await self.client.delete(PODS, name, namespace="default", grace_period_s=0)


@pytest.fixture
async def scene(local_client, settings, monkeypatch):
    monkeypatch.setattr(finding, "_SHOWN_IN_S", 0.2)
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    watched = Watched(local_client, settings)
    yield watched
    await watched.leave()


@pytest.fixture
def calls(scene, monkeypatch):
    return count_calls(scene.client, monkeypatch)


async def test_pods_cost_one_write_each_and_no_read_before_they_start(scene, calls):
    for name in ("first", "second", "third"):
        await scene.add_pod(name, to_allocate=SMALL)
    await scene.shows("first", "second", "third")
    del calls[:]
    scene.begins("first")
    await scene.allocator.prefer([PreferenceRequest(available=ID, required=(), size=1)])
    await scene.allocator.allocate([ID])
    scene.begins_next("second", after="first")
    await scene.allocator.allocate([ID])
    scene.begins_next("third", after="second")
    await scene.allocator.allocate([ID])
    assert [call for call in calls if call != "get nodes"] == ["patch pods"] * 3
    # The look for locks comes after, once for all that were served meanwhile.
    assert calls.count("get nodes") <= 1


async def test_without_the_kubelets_book_the_api_server_is_asked(scene, calls):
    await scene.add_pod()
    await scene.shows("p")
    del calls[:]
    await scene.allocator.allocate([ID])
    assert calls == ["get nodes", "list_all pods", "patch pods"]


async def test_a_watch_that_is_behind_the_kubelet_gets_a_moment(scene, calls, monkeypatch):
    await scene.shows()
    await scene.stop()
    await scene.add_pod()
    wait_changed, has_looked = scene.pods.wait_changed, asyncio.Event()

    async def wait_long(_limit_s):
        has_looked.set()
        return await wait_changed(30)

    monkeypatch.setattr(scene.pods, "wait_changed", wait_long)
    del calls[:]
    scene.begins("p")
    allocating = asyncio.ensure_future(scene.allocator.allocate([ID]))
    await has_looked.wait()
    scene.watch_again()
    await allocating
    assert [call for call in calls if call not in ("get nodes", "watch pods")] == ["patch pods"]


async def test_a_pod_that_the_watch_has_not_shown_is_asked_for(scene, calls):
    await scene.shows()
    await scene.stop()
    await scene.add_pod()
    del calls[:]
    scene.begins("p")
    await scene.allocator.allocate([ID])
    assert calls == ["get nodes", "list_all pods", "patch pods"]
    assert await scene.says() == ("success", ";")


async def test_a_watch_that_does_not_show_the_grant_is_not_believed(scene, calls):
    """Another process of the plugin gave the card away, and the watch has stopped before that."""
    await scene.add_pod("first")
    await scene.add_pod("second")
    await scene.shows("first", "second")
    await scene.stop()
    await scene.serve("first")
    scene.begins_next("second", after="other")
    del calls[:]
    with pytest.raises(AllocationError, match=r"second gets no card: .* 12000 of 10000 MiB, beside default/first"):
        await scene.allocator.allocate([ID])
    assert "list_all pods" in calls
    assert (await scene.says("second"))[0] == "failed"
    assert [name for name, _ in scene.reported] == ["second"]


async def test_what_happened_before_the_grant_is_seen_with_it(scene, calls, monkeypatch):
    """The watch runs, but had not shown it yet when the plugin decided."""
    await scene.add_pod("first")
    await scene.add_pod("second")
    await scene.shows("first", "second")
    await before_the_write_of(scene, "second", monkeypatch, lambda: scene.serve("first"))
    scene.begins_next("second", after="other")
    with pytest.raises(AllocationError, match=r"second gets no card: .* 12000 of 10000 MiB, beside default/first"):
        await scene.allocator.allocate([ID])
    assert "list_all pods" not in calls


async def test_a_pod_that_took_the_name_of_another_may_be_the_one_that_asks(scene, monkeypatch):
    """The kubelet knows the new pod, the watch still shows the old one, which asks for nothing."""
    await scene.add_pod()
    await scene.client.create(PODS, plain("web", {}), namespace="default")
    await scene.shows("p", "web")

    async def replace():
        await scene.remove("web")
        await scene.client.create(PODS, plain("web", {"limits": {RESOURCE: "1"}}), namespace="default")

    await before_the_write_of(scene, "p", monkeypatch, replace)
    scene.begins("p")
    scene.begins("web")
    with pytest.raises(AllocationError, match=r"may ask for pod default/p or for another.*default/web"):
        await scene.allocator.allocate([ID])


async def test_nobody_is_refused_for_what_is_over(scene):
    """The watch has stopped while the card was full."""
    await scene.add_pod("first")
    await scene.add_pod("second")
    await scene.serve("first")
    await scene.shows("first", "second")
    await scene.stop()
    await scene.remove("first")
    scene.begins("second")
    await scene.allocator.allocate([ID])
    assert await scene.says("second") == ("success", ";")


async def test_a_watch_that_is_behind_is_asked_again_when_it_has_caught_up(scene, calls):
    await scene.add_pod("first", to_allocate=SMALL)
    await scene.add_pod("second", to_allocate=SMALL)
    await scene.add_pod("third", to_allocate=SMALL)
    await scene.shows("first", "second", "third")
    await scene.stop()
    scene.begins("first")
    await scene.allocator.allocate([ID])
    del calls[:]
    scene.begins_next("second", after="first")
    await scene.allocator.allocate([ID])
    assert "list_all pods" in calls
    scene.watch_again()
    await scene.shows("first", "second", "third")
    del calls[:]
    scene.begins_next("third", after="second")
    await scene.allocator.allocate([ID])
    assert "list_all pods" not in calls


async def test_a_lock_that_names_a_served_pod_is_released_after_it(scene):
    """HAMi's scheduler beside gpuloom's plugin."""
    await scene.add_pod()
    await scene.shows("p")
    await scene.lock("p")
    scene.begins("p")
    await scene.allocator.allocate([ID])
    await wait_until(scene.has_no_lock)


async def test_a_lock_for_a_later_pod_of_the_name_is_left(scene):
    await scene.add_pod()
    await scene.shows("p")
    served = await scene.client.get(PODS, "p", namespace="default")
    await scene.remove("p")
    await scene.add_pod()
    await scene.lock("p")
    scene.locks.note(served)
    await scene.looks.end()
    assert await scene.has_lock()


async def test_an_api_server_that_is_away_is_told_once(scene, local_server):
    await scene.add_pod()
    await scene.shows("p")
    await scene.lock("p")
    local_server.faults.add(InjectedFault("GET", "/nodes/n1", times=3, status=503))
    with capture_logs() as logs:
        scene.locks.note(await scene.client.get(PODS, "p", namespace="default"))
        for _ in range(3):
            await scene.looks.end()
        await wait_until(scene.has_no_lock)
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["lock of a served pod not released"]


async def test_a_lock_that_cannot_be_read_is_looked_at_once(scene, calls):
    await scene.add_pod()
    await scene.shows("p")
    await scene.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: "never,default,p"}}})
    scene.begins("p")
    del calls[:]
    await scene.allocator.allocate([ID])
    await scene.looks.end()
    await scene.add_pod("next")
    await scene.shows("p", "next")
    assert calls.count("get nodes") == 1


async def test_a_look_for_locks_that_fails_is_made_again(scene, local_server):
    await scene.add_pod()
    await scene.shows("p")
    await scene.lock("p")
    scene.begins("p")
    local_server.faults.add(InjectedFault("PATCH", "/nodes/n1", status=409, reason="Conflict"))
    await scene.allocator.allocate([ID])
    await scene.looks.end()
    await wait_until(scene.has_no_lock)


async def test_a_look_for_locks_that_is_broken_off_is_made_again(scene, monkeypatch):
    """The plugin starts again for a new kubelet."""
    await scene.add_pod()
    await scene.shows("p")
    await scene.lock("p")
    get, has_asked = scene.client.get, asyncio.Event()

    async def hang(resource, *args, **options):
        if resource is NODES and not has_asked.is_set():
            has_asked.set()
            await asyncio.Event().wait()
        return await get(resource, *args, **options)

    monkeypatch.setattr(scene.client, "get", hang)
    scene.begins("p")
    await scene.allocator.allocate([ID])
    await has_asked.wait()
    await scene.look_again()
    await wait_until(scene.has_no_lock)


async def test_a_list_that_the_watch_shows_flawed_marks_its_pod_as_failed(scene):
    await scene.add_pod(**{ALLOCATED: f"{ONE}flaw:;"})
    await scene.shows("p")
    scene.begins("p")
    with pytest.raises(AllocationError, match="a device has no amounts"):
        await scene.allocator.allocate([ID])
    assert await scene.says() == ("failed", ONE)


async def test_an_api_server_that_does_not_answer_holds_a_call_for_seconds(scene, calls, local_server, monkeypatch):
    monkeypatch.setattr(annotations, "WRITE_DEADLINE_S", 0.5)
    monkeypatch.setattr(annotations, "_LAST_TRY_S", 0.7)
    await scene.add_pod()
    await scene.shows("p")
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", status=500))
    local_server.faults.add(InjectedFault("GET", "/pods/p", times=10, delay_s=35))
    scene.begins("p")
    del calls[:]
    async with asyncio.timeout(20):
        with pytest.raises(AllocationError, match=r"get Pod default/p: no answer"):
            await scene.allocator.allocate([ID])
    assert calls.count("get pods") <= 2
    local_server.faults.clear()
    assert await scene.says() == ("failed", ONE)


def plain(name, resources):
    """A pod that came past the scheduler."""
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [container]}}


async def before_the_write_of(scene, name, monkeypatch, happens):
    """Let something happen between the plugin's decision for a pod and its write."""
    patch = scene.client.patch
    done: list[str] = []

    async def patch_late(resource, patched, body, **options):
        if resource.plural == "pods" and patched == name and not done:
            done.append(name)
            await happens()
        return await patch(resource, patched, body, **options)

    monkeypatch.setattr(scene.client, "patch", patch_late)
