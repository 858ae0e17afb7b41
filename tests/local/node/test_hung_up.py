"""A kubelet that hangs up during Allocate, as one that is restarted does: it will ask for the pod again."""

import asyncio
from contextlib import suppress

import pytest
from local.node.unlocked import ID, ONE, Scene
from structlog.testing import capture_logs

from gpuloom.kube.errors import NotFoundError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.health import HealthBook
from gpuloom.node.inventory import CardInventory
from gpuloom.node.plugin import DevicePluginService
from gpuloom.node.simulated import SimulatedMachine, load_machine

REQUEST = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ID)])


class Call(Scene):
    """A node with a pod, and the kubelet's call for it, which hangs up in the first pause of the plugin."""

    def __init__(self, client, settings):
        super().__init__(client, settings)
        inventory = CardInventory(SimulatedMachine("n1", load_machine("two-t4")), settings, HealthBook(settings.health))
        self.service = DevicePluginService(settings, inventory, self.allocator, lambda *_: None)
        self.pauses = 0
        self.calling = None

    async def _sleep(self, seconds):
        del seconds
        self.pauses += 1
        if self.calling is not None:
            self.calling.cancel()
        await self.happens()

    async def happens(self):
        """Let something happen meanwhile."""
        await asyncio.sleep(0)

    async def call(self):
        """Call, and wait for all that the call began."""
        self.calling = asyncio.create_task(self.service.Allocate(REQUEST, None))
        await asyncio.wait({self.calling})
        await self.service.finish_allocations()
        # What is told of it comes one turn later.
        await asyncio.sleep(0)


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return Call(local_client, settings)


async def test_a_pod_of_which_nothing_was_changed_waits_for_the_next_call(scene, monkeypatch):
    """It becomes clear whose call it was when nobody waits for the answer any more."""

    async def leave():
        await scene.client.delete(PODS, "other", namespace="default", grace_period_s=0)

    await scene.add_pod()
    await scene.add_pod("other")
    monkeypatch.setattr(scene, "happens", leave)
    await scene.call()
    assert await scene.says() == ("allocating", ONE)
    scene.calling = None
    with suppress(NotFoundError):
        await leave()
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("success", ";")


async def test_a_write_that_has_begun_is_finished_and_told(scene, local_server):
    await scene.add_pod()
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", times=2, status=503))
    with capture_logs() as lines:
        await scene.call()
    assert scene.pauses == 1
    assert await scene.says() == ("success", ";")
    assert [line["pod"] for line in lines if line["event"] == "the kubelet hung up before it was answered"] == [
        "default/p"
    ]


async def test_a_refusal_that_nobody_hears_is_logged(scene, local_server):
    await scene.add_pod()
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", times=2, status=503))
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", status=422))
    with capture_logs() as lines:
        await scene.call()
    assert ["422" in line["error"] for line in lines if line["event"] == "allocation refused"] == [True]
