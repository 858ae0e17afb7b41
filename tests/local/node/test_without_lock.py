"""Allocate on a node without the lock: the phase is the lock, and a pod costs its plugin one write (binding 9)."""

import asyncio

import pytest

from gpuloom.kube.errors import ConflictError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator
from gpuloom.node.errors import AllocationError
from gpuloom.node.knownpods import KnownPod
from gpuloom.node.nvml import Gpu

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
DCU = "hami.io/dcu-devices-to-allocate"
RESOURCE = "nvidia.com/gpu"
ONE = "GPU-a,NVIDIA,6000,10:;"
ID = ("GPU-a-0",)
CARD = Gpu(uuid="GPU-a", index=0, name="NVIDIA A40", memory_mib=10000, pci_bus_id="")
REGISTERED = Card(id="GPU-a", memory_mib=10000, cores=100, count=10, mode="hami-core", healthy=True)


class Scene:
    """A node without a lock; ``book`` is what its kubelet knows, None where that is not shown."""

    def __init__(self, client, settings):
        self.client = client
        self.settings = settings
        self.book = None
        self.reported = []
        self.restart()

    def restart(self):
        """A plugin that has just started remembers nothing."""
        self.allocator = Allocator(
            self.settings,
            self.client,
            read_gpus=lambda: [CARD],
            read_cards=lambda: [REGISTERED],
            read_book=self._read_book,
            report=lambda pod, message: self.reported.append((pod.name, message)),
            sleep=self._sleep,
        )

    async def _read_book(self):
        return self.book

    async def _sleep(self, seconds):
        del seconds
        await asyncio.sleep(0)

    async def add_pod(self, name="p", to_allocate=ONE, containers=("c",), init=(), **annotations):
        known = {"hami.io/vgpu-node": "n1", PHASE: "allocating", TO_ALLOCATE: to_allocate, ALLOCATED: to_allocate}
        resources = {"limits": {RESOURCE: "1"}}
        spec = {
            "nodeName": "n1",
            "schedulerName": "hami-scheduler",
            "containers": [{"name": each, "image": "i", "resources": resources} for each in containers],
            "initContainers": [{"name": each, "image": "i", "resources": resources} for each in init],
        }
        body = {"metadata": {"name": name, "annotations": known | annotations}, "spec": spec}
        return await self.client.create(PODS, body, namespace="default")

    async def lock(self, name):
        text = f"2026-01-01T00:00:00Z,default,{name}"
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def has_lock(self):
        return LOCK in (await self.client.get(NODES, "n1")).annotations

    async def annotate(self, name, **annotations):
        await self.client.patch(PODS, name, {"metadata": {"annotations": annotations}}, namespace="default")

    async def says(self, name="p"):
        found = (await self.client.get(PODS, name, namespace="default")).annotations
        return found[PHASE], found[TO_ALLOCATE]

    def begins(self, name, containers=("c",), **devices):
        """The kubelet enters a pod in its book and asks for the devices that it does not have."""
        entry = KnownPod("default", name, {each: devices.get(each, []) for each in containers})
        self.book = [*(one for one in self.book or [] if one.name != name), entry]


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return Scene(local_client, settings)


@pytest.fixture
def calls(scene, monkeypatch):
    """What the plugin asks of the API server."""
    made = []

    def count(verb):
        method = getattr(scene.client, verb)

        async def counted(resource, *args, **options):
            made.append(f"{verb} {resource.plural}")
            return await method(resource, *args, **options)

        monkeypatch.setattr(scene.client, verb, counted)

    for verb in ("get", "list_all", "patch"):
        count(verb)
    return made


async def test_a_pod_costs_one_write_and_the_node_is_not_touched(scene, calls):
    await scene.add_pod()
    await scene.allocator.allocate([ID])
    assert calls == ["get nodes", "list_all pods", "patch pods"]
    assert await scene.says() == ("success", ";")


async def test_a_lock_that_names_the_served_pod_is_released(scene):
    """HAMi's scheduler beside gpuloom's plugin."""
    await scene.add_pod()
    await scene.lock("p")
    await scene.allocator.allocate([ID])
    assert not await scene.has_lock()


async def test_a_pod_that_was_bound_before_another_scheduler_locked_the_node_is_served_and_the_lock_left(scene):
    """A roll-back to HAMi's scheduler between a Bind and its Allocate."""
    await scene.add_pod("first")
    await scene.add_pod("second", to_allocate="GPU-a,NVIDIA,1000,10:;")
    await scene.lock("second")
    scene.begins("first")
    await scene.allocator.allocate([ID])
    assert [await scene.says("first"), await scene.says("second")] == [
        ("success", ";"),
        ("allocating", "GPU-a,NVIDIA,1000,10:;"),
    ]
    assert await scene.has_lock()
    scene.begins("first", c=["GPU-a-0"])
    scene.begins("second")
    await scene.allocator.allocate([ID])
    assert await scene.says("second") == ("success", ";")
    assert not await scene.has_lock()


async def test_two_that_were_bound_to_the_same_share_are_one_served_and_one_refused_and_reported(scene):
    """Two leaders at the same time, each without the other's pod."""
    await scene.add_pod("first")
    await scene.add_pod("second")
    scene.begins("second")
    await scene.allocator.allocate([ID])
    scene.begins("second", c=["GPU-a-0"])
    scene.begins("first")
    with pytest.raises(
        AllocationError, match=r"pod default/first gets no card: .* 12000 of 10000 MiB, beside default/second"
    ):
        await scene.allocator.allocate([ID])
    assert [await scene.says("first"), await scene.says("second")] == [("failed", ONE), ("success", ";")]
    assert [name for name, _ in scene.reported] == ["first"]


async def test_a_plugin_that_starts_anew_between_two_containers_serves_the_second(scene):
    await scene.add_pod(to_allocate=ONE.replace("6000", "2000") * 2, containers=("a", "b"))
    scene.begins("p", ("a", "b"))
    await scene.allocator.allocate([ID])
    assert (await scene.says())[0] == "allocating"
    scene.restart()
    scene.begins("p", ("a", "b"), a=["GPU-a-0"])
    served = await scene.allocator.allocate([("GPU-a-1",)])
    assert [grant.container for grant in served.grants] == ["b"]
    assert await scene.says() == ("success", ";;")


async def test_an_init_container_is_served_before_the_regular_one(scene):
    await scene.add_pod(to_allocate=ONE * 2, init=("i",))
    scene.begins("p")
    containers = []
    for _ in range(2):
        containers += [grant.container for grant in (await scene.allocator.allocate([ID])).grants]
    assert (containers, await scene.says()) == (["i", "c"], ("success", ";;"))


async def test_a_pod_of_two_vendors_is_not_called_served_before_the_other_plugin_is_done(scene):
    await scene.add_pod(**{DCU: "DCU-0,DCU,1000,10:;"})
    await scene.lock("p")
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("allocating", ";")
    assert await scene.has_lock()


async def test_whoever_is_last_of_two_vendors_plugins_calls_the_pod_served(scene):
    await scene.add_pod(**{DCU: ";", PHASE: "success"})
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("success", ";")


async def test_a_pod_that_others_changed_meanwhile_is_read_again_and_served(scene, monkeypatch):
    await scene.add_pod()
    await change_before_write(scene, monkeypatch, {"other/note": "x"})
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("success", ";")


async def test_a_grant_that_others_took_meanwhile_is_refused(scene, monkeypatch):
    await scene.add_pod()
    await change_before_write(scene, monkeypatch, {TO_ALLOCATE: "GPU-b,NVIDIA,1,0:;"})
    with pytest.raises(AllocationError, match="what pod default/p was to be given has been changed meanwhile"):
        await scene.allocator.allocate([ID])


async def change_before_write(scene, monkeypatch, annotations):
    """Let another program change the pod between the plugin's read and its write."""
    patch = scene.client.patch
    conflicts: list[str] = []

    async def patch_late(resource, name, body, **options):
        if resource.plural == "pods" and options.get("resource_version") and not conflicts:
            conflicts.append(name)
            await patch(PODS, "p", {"metadata": {"annotations": annotations}}, namespace="default")
            with pytest.raises(ConflictError):
                await patch(resource, name, body, **options)
            raise ConflictError("patch", f"Pod default/{name}", 409, "the object has been modified")
        return await patch(resource, name, body, **options)

    monkeypatch.setattr(scene.client, "patch", patch_late)


async def test_a_write_whose_reply_is_lost_is_not_made_twice(scene, local_server, calls):
    await scene.add_pod()
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", lose_answer=True))
    await scene.allocator.allocate([ID])
    assert calls.count("patch pods") == 1
    assert await scene.says() == ("success", ";")


async def test_a_plugin_without_the_kubelets_book_refuses_when_two_wait(scene):
    await scene.add_pod("a")
    await scene.add_pod("b")
    with pytest.raises(AllocationError, match="default/a, default/b"):
        await scene.allocator.allocate([ID])
    assert [(await scene.says(name))[0] for name in "ab"] == ["allocating", "allocating"]
