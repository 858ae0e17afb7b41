"""Instances of pods that vanished while no plugin ran, on cards that other pods use."""

import json
from dataclasses import replace

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.model.mig import MigPlacement
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.device_config import MigAllowlist

ALLOCATIONS = "hami.io/vgpu-mig-allocations"
ALLOWED = (MigAllowlist(("A100-SXM4-40GB",), ("1g.5gb", "3g.20gb")),)


class Scene:
    """A divided card with the instance of a running pod at 6 and another, of nobody, at 3."""

    def __init__(self, settings, client, machine):
        self.machine = machine
        self.card = machine.gpus[0].uuid
        self._client = client
        self._settings = replace(settings, mode="mig", mig_allowlist=ALLOWED)

    async def begin(self):
        await self._client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        await self.machine.mig.enable(self.card)
        await self.machine.mig.create_part(self.card, "1g.5gb", MigPlacement(3, 1))
        await self.machine.mig.create_part(self.card, "1g.5gb", MigPlacement(6, 1))
        await self.add_pod("p", self.promise("1g.5gb", 6, 1))

    def promise(self, profile, start, size):
        allocation = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": self.card, "profile": profile}
        return json.dumps([allocation | {"placement": {"start": start, "size": size}}])

    async def add_pod(self, name, allocations):
        body = {
            "metadata": {"name": name, "namespace": "default", "annotations": {ALLOCATIONS: allocations}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        await self._client.create(PODS, body, namespace="default")

    async def start_plugin(self, **settings):
        """Where instances lie once a plugin has started."""
        keeper = MigKeeper(replace(self._settings, **settings), self._client, self.machine)
        await keeper.prepare(self.machine.gpus)
        return [part.placement.start for part in await self.machine.mig.list_parts(self.card)]


@pytest.fixture
async def scene(settings, local_client):
    scene = Scene(settings, local_client, SimulatedMachine("n1", load_machine("eight-a100-40gb")))
    await scene.begin()
    return scene


async def test_an_instance_of_nobody_goes_although_another_pod_uses_the_card(scene):
    assert await scene.start_plugin() == [6]


async def test_an_instance_of_nobody_goes_from_the_place_of_a_pod_that_is_still_to_be_served(scene):
    await scene.add_pod("q", scene.promise("3g.20gb", 0, 4))
    assert await scene.start_plugin() == [6]


async def test_an_instance_that_a_pod_was_promised_stays(scene):
    await scene.add_pod("q", scene.promise("1g.5gb", 3, 1))
    assert await scene.start_plugin() == [3, 6]


async def test_an_instance_on_which_a_program_computes_stays(scene):
    part, _ = await scene.machine.mig.list_parts(scene.card)
    scene.machine.mig.busy.add(part.runtime.mig_uuid)
    assert await scene.start_plugin() == [3, 6]


async def test_an_instance_of_nobody_stays_while_a_pods_annotation_cannot_be_read(scene):
    await scene.add_pod("broken", "{")
    assert await scene.start_plugin() == [3, 6]


async def test_an_instance_on_a_card_that_is_not_offered_stays(scene):
    other = (MigAllowlist(("H100",), ("1g.10gb",)),)
    assert await scene.start_plugin(mig_allowlist=other) == [3, 6]


async def test_an_instance_on_a_card_of_which_no_pod_holds_a_part_stays_while_the_card_is_busy(scene, local_client):
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    scene.machine.mig.busy.add(scene.card)
    assert await scene.start_plugin() == [3, 6]
