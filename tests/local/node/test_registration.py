"""Single ticks of the annotation loop."""

import pytest

from gpuloom.kube.errors import ApiError
from gpuloom.kube.resources import NODES
from gpuloom.local.apiserver import Fault
from gpuloom.node.inventory import CardInventory
from gpuloom.node.registration import keep_registered, register_cards
from gpuloom.node.simulated import SimulatedMachine, load_machine

REGISTER = "hami.io/node-nvidia-register"


class EnoughError(Exception):
    """Ends a loop after its first wait."""


@pytest.fixture
async def tick(local_client, settings):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    inventory = CardInventory(SimulatedMachine("n1", load_machine("two-t4")), settings)
    return lambda: register_cards(settings, local_client, inventory)


async def test_the_first_tick_writes(tick):
    assert await tick()


async def test_an_unchanged_annotation_is_not_written_again(tick):
    await tick()
    assert not await tick()


async def test_an_annotation_changed_by_others_is_written_again(tick, local_client):
    await tick()
    await local_client.patch(NODES, "n1", {"metadata": {"annotations": {REGISTER: "[]"}}})
    assert await tick()


async def test_a_write_that_failed_is_made_up_for(tick, local_server):
    local_server.faults.add(Fault("PATCH", "/nodes/n1", status=500))
    with pytest.raises(ApiError):
        await tick()
    assert await tick()


@pytest.mark.parametrize(("fault", "wait_s"), [(Fault(times=0), 30), (Fault("GET", "/nodes/n1", status=500), 5)])
async def test_the_loop_waits_longer_after_a_success(tick, local_client, local_server, settings, fault, wait_s):
    waits = []

    async def note(seconds):
        waits.append(seconds)
        raise EnoughError

    if fault.status:
        local_server.faults.add(fault)
    inventory = CardInventory(SimulatedMachine("n1", load_machine("two-t4")), settings)
    with pytest.raises(EnoughError):
        await keep_registered(settings, local_client, inventory, sleep=note)
    assert waits == [wait_s]
