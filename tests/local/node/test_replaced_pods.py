"""A pod that is deleted and made anew under its name while Allocate writes: the new one hears nothing of the old."""

import json
from dataclasses import replace

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.node.allocate import Allocator
from gpuloom.node.errors import AllocationError
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.device_config import MigAllowlist

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
ALLOCATIONS = "hami.io/vgpu-mig-allocations"
ID = ("GPU-a-0",)


class Scene:
    """The pod ``p`` is served on a node; in the first pause after failed writes another takes its name."""

    def __init__(self, client, settings, machine, card):
        self.client = client
        self.card = card
        self.pauses = 0
        self._machine = machine
        self._settings = settings

    async def lock(self, text):
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def present_lock(self):
        return (await self.client.get(NODES, "n1")).annotations.get(LOCK)

    async def add_pod(self):
        allocation = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": self.card, "profile": "1g.5gb"}
        annotations = {
            "hami.io/vgpu-node": "n1",
            PHASE: "allocating",
            "hami.io/vgpu-devices-to-allocate": f"{self.card},NVIDIA,1000,10:;",
            ALLOCATIONS: json.dumps([allocation | {"placement": {"start": 6, "size": 1}}]),
        }
        body = {
            "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
            "spec": {
                "nodeName": "n1",
                "schedulerName": "hami-scheduler",
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        await self.client.create(PODS, body, namespace="default")

    async def replace_pod(self, seconds):
        del seconds
        self.pauses += 1
        if self.pauses == 1:
            await self.client.delete(PODS, "p", namespace="default", grace_period_s=0)
            await self.add_pod()
            if await self.present_lock():
                await self.lock("2026-01-01T00:00:09Z,default,p")

    async def allocate(self, *, divided):
        settings, mig = self._settings, None
        if divided:
            allowed = (MigAllowlist(("A100-SXM4-40GB",), ("1g.5gb",)),)
            settings = replace(settings, mode="mig", mig_allowlist=allowed)
            mig = MigKeeper(settings, self.client, self._machine)
            await mig.prepare(self._machine.gpus)
        allocator = Allocator(
            settings, self.client, read_gpus=lambda: self._machine.gpus, mig=mig, sleep=self.replace_pod
        )
        await self.add_pod()
        await allocator.allocate([ID])

    async def annotations(self):
        return (await self.client.get(PODS, "p", namespace="default")).annotations


@pytest.fixture
async def scene(local_client, local_server, settings):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    machine = SimulatedMachine("n1", load_machine("eight-a100-40gb"))
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", times=2, status=503))
    return Scene(local_client, settings, machine, machine.gpus[0].uuid)


@pytest.mark.parametrize("divided", [False, True])
async def test_another_pod_of_the_same_name_is_marked_neither_as_served_nor_as_failed(scene, divided):
    with pytest.raises(AllocationError):
        await scene.allocate(divided=divided)
    assert (await scene.annotations())[PHASE] == "allocating"


async def test_another_pod_of_the_same_name_is_given_no_instance_of_the_old_one(scene):
    with pytest.raises(AllocationError, match=r"pod default/p is another one by now"):
        await scene.allocate(divided=True)
    assert "migUUID" not in (await scene.annotations())[ALLOCATIONS]


async def test_a_write_to_a_pod_that_is_gone_is_not_tried_again(scene):
    with pytest.raises(AllocationError):
        await scene.allocate(divided=False)
    assert scene.pauses == 1


async def test_another_pod_of_the_same_name_keeps_its_lock(scene):
    await scene.lock("2026-01-01T00:00:00Z,default,p")
    with pytest.raises(AllocationError):
        await scene.allocate(divided=False)
    assert await scene.present_lock() == "2026-01-01T00:00:09Z,default,p"
