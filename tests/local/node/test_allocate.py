"""Allocate against an API server that fails, and locks of every kind; no gRPC here."""

import asyncio

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import Fault
from gpuloom.node.allocate import Allocator
from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu

LOCK = "hami.io/mutex.lock"
OWN_LOCK = "2026-01-01T00:00:00Z,default,p"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ONE = "GPU-a,NVIDIA,1000,10:;"
ID = ("GPU-a-0",)
CARD = Gpu(uuid="GPU-a", index=0, name="NVIDIA A40", memory_mib=46068, pci_bus_id="")


async def do_not_wait(seconds):
    del seconds
    await asyncio.sleep(0)


class Scene:
    def __init__(self, client, settings):
        self.client = client
        self.allocator = Allocator(settings, client, read_gpus=lambda: [CARD], sleep=do_not_wait)

    async def lock(self, text):
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def add_pod(self, name="p", to_allocate=ONE, containers=("c",)):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {"hami.io/vgpu-node": "n1", PHASE: "allocating", TO_ALLOCATE: to_allocate},
            },
            "spec": {
                "nodeName": "n1",
                "schedulerName": "hami-scheduler",
                "containers": [{"name": each, "image": "i"} for each in containers],
            },
        }
        await self.client.create(PODS, body, namespace="default")

    async def present_lock(self):
        return (await self.client.get(NODES, "n1")).annotations.get(LOCK)

    async def phase(self, name="p"):
        return (await self.client.get(PODS, name, namespace="default")).annotations[PHASE]


@pytest.fixture
async def scene(local_client, settings):
    """A node that exists and has no lock."""
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    return Scene(local_client, settings)


@pytest.mark.parametrize(
    "fault", [Fault("PATCH", "/pods/p", status=503), Fault("PATCH", "/pods/p", lose_answer=True)], ids=["503", "lost"]
)
async def test_a_pod_write_of_unknown_outcome_is_tried_again(scene, local_server, fault):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(fault)
    await scene.allocator.allocate([ID])
    assert await scene.phase() == "success"


async def test_a_refused_pod_write_fails_the_pod(scene, local_server):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("PATCH", "/pods/p", status=403, reason="Forbidden"))
    with pytest.raises(AllocationError, match="Pod default/p"):
        await scene.allocator.allocate([ID])
    assert await scene.phase() == "failed"


async def test_the_lock_is_released_even_if_the_pod_cannot_be_marked(scene, local_server):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("PATCH", "/pods/p", status=403, reason="Forbidden", times=2))
    with pytest.raises(AllocationError):
        await scene.allocator.allocate([ID])
    assert await scene.present_lock() is None


@pytest.mark.parametrize("status", [409, 500])
async def test_the_release_of_the_lock_is_tried_again(scene, local_server, status):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("PATCH", "/nodes/n1", status=status, reason="Conflict", times=2))
    await scene.allocator.allocate([ID])
    assert await scene.present_lock() is None


async def test_a_lock_that_cannot_be_released_does_not_fail_the_container(scene, local_server):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("PATCH", "/nodes/n1", status=403, reason="Forbidden"))
    served = await scene.allocator.allocate([ID])
    assert [grant.container for grant in served.grants] == ["c"]


async def test_a_directory_that_cannot_be_made_fails_the_pod(scene, settings):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    (settings.host_root / "usr/local/vgpu/containers").write_text("in the way")
    with pytest.raises(AllocationError, match="containers"):
        await scene.allocator.allocate([ID])
    assert (await scene.phase(), await scene.present_lock()) == ("failed", None)


async def test_an_old_directory_of_the_container_is_emptied(scene, settings):
    await scene.add_pod()
    uid = (await scene.client.get(PODS, "p", namespace="default")).metadata.uid
    left = settings.host_root / f"usr/local/vgpu/containers/{uid}_c" / "old.cache"
    left.parent.mkdir(parents=True)
    left.touch()
    await scene.allocator.allocate([ID])
    assert list(left.parent.iterdir()) == []


async def test_without_a_lock_the_only_candidate_is_served(scene):
    await scene.add_pod()
    await scene.add_pod("done", to_allocate=";")
    await scene.allocator.allocate([ID])
    assert await scene.phase() == "success"


async def test_p_10_a_call_that_finds_only_a_served_pod_leaves_its_phase_alone(scene):
    await scene.add_pod()
    await scene.allocator.allocate([ID])
    with pytest.raises(AllocationError, match="no binding pod found on node n1"):
        await scene.allocator.allocate([ID])
    assert await scene.phase() == "success"


async def test_without_a_lock_nobody_is_served_when_two_wait(scene):
    await scene.add_pod()
    await scene.add_pod("q")
    with pytest.raises(AllocationError, match="default/p, default/q"):
        await scene.allocator.allocate([ID])
    assert [await scene.phase("p"), await scene.phase("q")] == ["allocating", "allocating"]


async def test_with_a_lock_its_pod_is_served_although_another_waits(scene):
    await scene.lock(OWN_LOCK)
    await scene.add_pod("other")
    await scene.add_pod()
    await scene.allocator.allocate([ID])
    assert [await scene.phase("p"), await scene.phase("other")] == ["success", "allocating"]


async def test_a_lock_of_an_unknown_pod_serves_nobody(scene):
    await scene.lock("2026-01-01T00:00:00Z,default,gone")
    await scene.add_pod()
    with pytest.raises(AllocationError, match="pod default/gone holds the lock of node n1 but does not exist"):
        await scene.allocator.allocate([ID])


async def test_a_lock_without_a_pod_is_left_alone(scene):
    await scene.lock("2026-01-01T00:00:00Z")
    await scene.add_pod()
    await scene.allocator.allocate([ID])
    assert await scene.present_lock() == "2026-01-01T00:00:00Z"


async def test_an_unreadable_lock_serves_nobody_and_is_named(scene):
    await scene.lock("a,b")
    await scene.add_pod()
    with pytest.raises(AllocationError, match=r"node n1, annotation hami.io/mutex.lock: malformed"):
        await scene.allocator.allocate([ID])


@pytest.mark.parametrize("requests", [[], [[]], [["GPU-a-0"], []]])
async def test_p_12_a_request_for_no_device_is_refused(scene, requests):
    await scene.add_pod()
    with pytest.raises(AllocationError, match="empty request"):
        await scene.allocator.allocate(requests)


async def test_calls_at_the_same_time_are_served_one_after_another(scene):
    await scene.lock(OWN_LOCK)
    await scene.add_pod(to_allocate=ONE + ONE, containers=("a", "b"))
    results = await asyncio.gather(scene.allocator.allocate([ID]), scene.allocator.allocate([ID]))
    assert [grant.container for served in results for grant in served.grants] == ["a", "b"]


async def test_an_api_server_that_does_not_answer_changes_nothing(scene, local_server):
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("GET", "/nodes/n1", status=500, times=7))
    with pytest.raises(AllocationError, match="cannot find the pod to allocate for on node n1"):
        await scene.allocator.allocate([ID])
    assert (await scene.phase(), await scene.present_lock()) == ("allocating", OWN_LOCK)


async def test_an_allocation_costs_five_calls_of_the_api_server(scene, monkeypatch):
    calls = []

    def count(verb):
        method = getattr(scene.client, verb)

        async def counted(resource, *args, **options):
            calls.append(f"{verb} {resource.plural}")
            return await method(resource, *args, **options)

        monkeypatch.setattr(scene.client, verb, counted)

    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    for verb in ("get", "list_all", "patch"):
        count(verb)
    await scene.allocator.allocate([ID])
    assert calls == ["get nodes", "list_all pods", "patch pods", "get nodes", "patch nodes"]


@pytest.mark.parametrize("path", ["/nodes/n1", "/pods"])
async def test_a_read_that_breaks_off_is_tried_again(scene, local_server, path):
    """A refusal would be for good: the kubelet fails the pod."""
    await scene.lock(OWN_LOCK)
    await scene.add_pod()
    local_server.faults.add(Fault("GET", path, cut=True, times=3))
    await scene.allocator.allocate([ID])
    assert await scene.phase() == "success"
