"""Pods that came past the scheduler and ask for cards: they get nothing, and nobody loses a grant (trust T-03)."""

import asyncio

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.allocate import Allocator
from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu

LOCK = "hami.io/mutex.lock"
OWN_LOCK = "2026-01-01T00:00:00Z,default,ours"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
RESOURCE = "nvidia.com/gpu"
ONE = "GPU-a,NVIDIA,1000,10:;"
ID = ("GPU-a-0",)
CARD = Gpu(uuid="GPU-a", index=0, name="NVIDIA A40", memory_mib=46068, pci_bus_id="")


class Scene:
    """A node with a pod of ours that waits for its card, and others."""

    def __init__(self, client, settings):
        self.client = client
        self.waited_s = []
        self.allocator = Allocator(settings, client, read_gpus=lambda: [CARD], sleep=self._sleep)

    async def _sleep(self, seconds):
        self.waited_s.append(seconds)
        await self.before_wait()

    async def before_wait(self):
        await asyncio.sleep(0)

    async def lock(self, name):
        text = f"2026-01-01T00:00:00Z,default,{name}"
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def end(self, name):
        await self.client.patch(PODS, name, {"status": {"phase": "Failed"}}, namespace="default", subresource="status")

    async def add_ours(self, name="ours", to_allocate=ONE):
        annotations = {"hami.io/vgpu-node": "n1", PHASE: "allocating", TO_ALLOCATE: to_allocate}
        await self._add(name, annotations, "hami-scheduler", "1")
        await self.lock(name)

    async def add_foreign(self, name="foreign", count="1"):
        await self._add(name, {}, "default-scheduler", count)

    async def _add(self, name, annotations, scheduler, count):
        limits = {"limits": {RESOURCE: count}} if count else {}
        spec = {
            "nodeName": "n1",
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": limits}],
        }
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self.client.create(PODS, body, namespace="default")

    async def standing(self):
        pod = await self.client.get(PODS, "ours", namespace="default")
        node = await self.client.get(NODES, "n1")
        return pod.annotations[PHASE], pod.annotations[TO_ALLOCATE], node.annotations.get(LOCK)


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return Scene(local_client, settings)


async def test_a_call_that_may_be_a_foreign_pods_gets_nothing_and_costs_nobody_a_grant(scene):
    await scene.add_ours()
    await scene.add_foreign()
    with pytest.raises(AllocationError, match="default/foreign"):
        await scene.allocator.allocate([ID])
    assert await scene.standing() == ("allocating", ONE, OWN_LOCK)


async def test_a_call_for_another_number_than_was_granted_costs_nobody_a_grant(scene):
    await scene.add_ours()
    await scene.add_foreign(count="2")
    with pytest.raises(AllocationError):
        await scene.allocator.allocate([("GPU-a-0", "GPU-a-1")])
    assert await scene.standing() == ("allocating", ONE, OWN_LOCK)


async def test_a_foreign_pod_on_its_own_gets_nothing_and_is_told_what_to_do(scene):
    await scene.add_foreign()
    with pytest.raises(AllocationError, match=r"default/foreign asks for nvidia\.com/gpu .*without spec\.nodeName"):
        await scene.allocator.allocate([ID])


async def test_a_call_goes_on_as_soon_as_the_other_pod_is_over(scene, monkeypatch):
    await scene.add_ours()
    await scene.add_foreign()
    monkeypatch.setattr(scene, "before_wait", lambda: scene.end("foreign"))
    await scene.allocator.allocate([ID])
    assert (await scene.standing())[0] == "success"


async def test_a_call_that_stays_unclear_waits_five_seconds_at_most(scene):
    await scene.add_ours()
    await scene.add_foreign()
    with pytest.raises(AllocationError):
        await scene.allocator.allocate([ID])
    assert sum(scene.waited_s) == pytest.approx(5.0)


async def test_a_pod_that_was_just_served_does_not_hold_up_the_next(scene):
    await scene.add_ours()
    await scene.allocator.allocate([ID])
    await scene.add_ours("next")
    await scene.allocator.allocate([ID])
    assert scene.waited_s == []


async def test_a_kubelet_that_shows_its_socket_and_does_not_answer_gets_no_grant(scene, settings):
    await scene.add_ours()
    settings.pod_resources_socket.parent.mkdir()
    settings.pod_resources_socket.touch()
    with pytest.raises(AllocationError, match="does not tell who holds devices"):
        await scene.allocator.allocate([ID])
    assert await scene.standing() == ("allocating", ONE, OWN_LOCK)


async def test_a_pod_that_came_past_the_scheduler_is_refused_by_its_kubelet_and_says_why(site):
    await site.create_pod("foreign", nodeName="n1", schedulerName="default-scheduler")
    pod = await site.wait_for_phase("foreign", "Failed")
    assert "foreign asks for nvidia.com/gpu and was not placed by scheduler hami-scheduler" in pod.status.message


async def test_a_pod_of_ours_starts_beside_foreign_pods_that_were_refused(site):
    for number in range(3):
        await site.create_pod(f"foreign-{number}", nodeName="n1", schedulerName="default-scheduler")
    pod = await site.create_pod("ours")
    await site.bind(pod, f"{site.machine.gpus[0].uuid},NVIDIA,1000,10:;")
    started = await site.wait_for_phase("ours", "Running")
    assert started.annotations[PHASE] == "success"
