"""Instances whose pods the start of the plugin did not learn, or that came too late: no place is blocked for ever."""

import asyncio
import json
from dataclasses import replace

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.model.mig import MigPlacement
from gpuloom.node.agent import NodeAgent
from gpuloom.node.errors import AllocationError, DriverSilentError, HalfMadeError
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.simulated import SimulatedFault, SimulatedMachine, load_machine
from gpuloom.wire.device_config import MigAllowlist

from .conftest import hurry, wait_until

ALLOCATIONS = "hami.io/vgpu-mig-allocations"
ALLOWED = (MigAllowlist(("A100-SXM4-40GB",), ("1g.5gb", "3g.20gb")),)
ID = ("GPU-a-0",)
FAILING = SimulatedFault(kind="failing", card=0)
NO_PODS = InjectedFault("GET", "/pods", status=403, reason="Forbidden")


class Scene:
    """A node of eight cards, of which the first is divided, and the pods that were promised parts of it."""

    def __init__(self, settings, client):
        self.machine = SimulatedMachine("n1", load_machine("eight-a100-40gb"))
        self.first = self.machine.gpus[0].uuid
        self.settings = replace(settings, mode="mig", mig_allowlist=ALLOWED)
        self.client = client

    async def add_pod(self, name, start):
        promise = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": self.first, "profile": "1g.5gb"}
        annotations = {
            ALLOCATIONS: json.dumps([promise | {"placement": {"start": start, "size": 1}}]),
            "hami.io/vgpu-devices-to-allocate": f"{self.first},NVIDIA,4864,15:;",
        }
        body = {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        return await self.client.create(PODS, body, namespace="default")

    async def finish(self, name):
        status = {"status": {"phase": "Succeeded"}}
        await self.client.patch(PODS, name, status, namespace="default", subresource="status")

    async def make_part(self, start):
        return await self.machine.mig.create_part(self.first, "1g.5gb", MigPlacement(start, 1))

    async def places(self):
        return [part.placement.start for part in await self.machine.mig.list_parts(self.first)]

    async def start_plugin(self):
        keeper = MigKeeper(self.settings, self.client, self.machine, sleep=hurry)
        return keeper, await keeper.prepare(self.machine.gpus)

    @property
    def others(self):
        return {gpu.uuid for gpu in self.machine.gpus[1:]}


@pytest.fixture
async def scene(settings, local_client):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    scene = Scene(settings, local_client)
    await scene.machine.mig.enable(scene.first)
    return scene


@pytest.fixture
async def keeper(scene):
    keeper, _ = await scene.start_plugin()
    return keeper


async def test_an_instance_is_adopted_once_pods_can_be_listed(scene, local_server):
    await scene.make_part(6)
    await scene.add_pod("p", 6)
    local_server.faults.add(NO_PODS)
    keeper, _ = await scene.start_plugin()
    await keeper.reconcile()
    assert await scene.places() == [6]
    await scene.finish("p")
    await keeper.reconcile()
    assert await scene.places() == []


async def test_an_instance_is_adopted_once_the_annotations_of_all_pods_can_be_read(scene, local_client):
    await scene.make_part(6)
    await scene.add_pod("p", 6)
    await scene.add_pod("broken", 5)
    await local_client.patch(PODS, "broken", {"metadata": {"annotations": {ALLOCATIONS: "{"}}}, namespace="default")
    keeper, _ = await scene.start_plugin()
    await local_client.delete(PODS, "broken", namespace="default", grace_period_s=0)
    await keeper.reconcile()
    await scene.finish("p")
    await keeper.reconcile()
    assert await scene.places() == []


async def test_an_idle_card_is_emptied_although_another_one_does_not_answer(scene):
    second = scene.machine.gpus[1].uuid
    await scene.machine.mig.enable(second)
    await scene.machine.mig.create_part(second, "1g.5gb", MigPlacement(0, 1))
    scene.machine.set_faults([FAILING])
    await scene.start_plugin()
    assert await scene.machine.mig.list_parts(second) == ()


async def test_an_instance_of_a_vanished_pod_goes_once_nothing_computes_on_it(scene):
    scene.machine.mig.busy.add((await scene.make_part(3)).mig_uuid)
    keeper, _ = await scene.start_plugin()
    await keeper.reconcile()
    assert await scene.places() == [3]
    scene.machine.mig.busy.clear()
    await keeper.reconcile()
    assert await scene.places() == []


async def test_the_place_of_a_vanished_pod_can_be_given_once_nothing_computes_there(scene):
    scene.machine.mig.busy.add((await scene.make_part(3)).mig_uuid)
    keeper, _ = await scene.start_plugin()
    scene.machine.mig.busy.clear()
    pod = await scene.add_pod("p", 3)
    await keeper.create(pod, [ID])
    await keeper.reconcile()
    assert await scene.places() == [3]


@pytest.fixture(params=[DriverSilentError("no answer"), HalfMadeError("half of it"), asyncio.CancelledError()])
async def late(request, scene, keeper, monkeypatch):
    """An instance that is there although the pod that it was for heard that it is not."""
    make = scene.machine.mig.create_part

    async def make_late(*args):
        await make(*args)
        raise request.param

    pod = await scene.add_pod("p", 6)
    with monkeypatch.context() as patch:
        patch.setattr(scene.machine.mig, "create_part", make_late)
        with pytest.raises((AllocationError, asyncio.CancelledError)):
            await keeper.create(pod, [ID])
    assert await scene.places() == [6]


async def test_an_instance_that_came_too_late_goes_with_its_pod(scene, keeper, late):
    await scene.finish("p")
    await keeper.reconcile()
    assert await scene.places() == []


async def test_the_place_of_an_instance_that_came_too_late_can_be_given_to_the_next_pod(scene, keeper, late):
    await scene.finish("p")
    await keeper.create(await scene.add_pod("q", 6), [ID])
    await keeper.reconcile()
    assert await scene.places() == [6]


async def test_an_instance_that_came_too_late_stays_while_its_pod_lives(scene, keeper, late):
    await keeper.reconcile()
    assert await scene.places() == [6]


async def test_an_instance_of_somebody_else_stays_although_a_pod_was_promised_its_place(scene, keeper):
    await scene.make_part(6)
    with pytest.raises(AllocationError, match="no room"):
        await keeper.create(await scene.add_pod("p", 6), [ID])
    await scene.finish("p")
    await keeper.reconcile()
    assert await scene.places() == [6]


async def test_what_is_rolled_back_late_is_not_an_instance_that_was_made_for_another_pod_since(scene, keeper):
    pod = await scene.add_pod("p", 6)
    runtimes = await keeper.create(pod, [ID])
    await scene.finish("p")
    await keeper.create(await scene.add_pod("q", 5), [ID])
    await keeper.roll_back(pod, [ID], runtimes)
    assert await scene.places() == [5]


async def test_what_was_destroyed_meanwhile_need_not_be_rolled_back(scene, keeper):
    pod = await scene.add_pod("p", 6)
    runtimes = await keeper.create(pod, [ID])
    await scene.finish("p")
    await keeper.reconcile()
    await keeper.roll_back(pod, [ID], runtimes)
    assert await scene.places() == []


async def test_a_card_that_does_not_answer_takes_no_other_one_away(scene):
    scene.machine.set_faults([FAILING])
    _, offers = await scene.start_plugin()
    assert set(offers) == scene.others


async def test_a_card_that_did_not_answer_is_offered_once_it_does(scene):
    scene.machine.set_faults([FAILING])
    keeper, _ = await scene.start_plugin()
    assert await keeper.divide_idle() == {}
    scene.machine.set_faults([])
    assert set(await keeper.divide_idle()) == {scene.first, *scene.others}


async def test_instances_of_a_card_that_did_not_answer_go_with_their_pods(scene):
    await scene.make_part(6)
    await scene.add_pod("p", 6)
    scene.machine.set_faults([FAILING])
    keeper, _ = await scene.start_plugin()
    scene.machine.set_faults([])
    assert scene.first in await keeper.divide_idle()
    assert await scene.places() == [6]
    await scene.finish("p")
    await keeper.reconcile()
    assert await scene.places() == []


async def test_the_kubelet_is_served_although_one_card_does_not_answer(scene):
    scene.machine.set_faults([FAILING])

    async def has_devices(count):
        async def are_there():
            return kubelet.allocatable.get("nvidia.com/gpu") == count

        await wait_until(are_there)

    async with (
        SimulatedKubelet("n1", scene.client, scene.settings.plugins_dir) as kubelet,
        NodeAgent(scene.settings, scene.client, scene.machine, sleep=hurry),
    ):
        await has_devices(7 * 7)
        scene.machine.set_faults([])
        await has_devices(8 * 7)
