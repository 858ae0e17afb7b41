"""Cards that are in use while MIG is off on them: they are left alone, and divided and offered once they are idle."""

import asyncio
from dataclasses import replace

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import Fault
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.node.agent import NodeAgent
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.device_config import MigAllowlist, MigEntry, MigGeometries
from gpuloom.wire.errors import WireError

from .conftest import wait_until

ALLOWED = (MigAllowlist(("A100-SXM4-40GB",), ("1g.5gb", "3g.20gb")),)
GEOMETRIES = (MigGeometries(("A100",), ((MigEntry("1g.5gb", count=7),),)),)
RESOURCE = "nvidia.com/gpu"


async def hurry(seconds):
    await asyncio.sleep(seconds / 100)


@pytest.fixture(params=["profiles", "geometries"])
def settings(request, settings):
    if request.param == "profiles":
        return replace(settings, mode="mig", mig_allowlist=ALLOWED)
    return replace(settings, mode="mig", mig_geometries=GEOMETRIES)


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("eight-a100-40gb"))


@pytest.fixture
def first(machine):
    return machine.gpus[0].uuid


@pytest.fixture
async def keeper(settings, local_client, machine):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    return MigKeeper(settings, local_client, machine, sleep=hurry)


@pytest.fixture
async def ordinary_pod(local_client, first):
    """A pod that shares the first card as a whole, and does not compute now."""
    annotations = {"hami.io/vgpu-devices-allocated": f"{first},NVIDIA,1000,10:;"}
    body = {
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    await local_client.create(PODS, body, namespace="default")


def is_divided(machine):
    return machine.gpus[0].can_be_divided


async def wait_for_devices(kubelet, count):
    async def are_there():
        return kubelet.allocatable.get(RESOURCE) == count

    await wait_until(are_there)


async def test_a_card_in_use_is_not_offered_while_mig_is_off(keeper, machine, first):
    machine.mig.busy.add(first)
    assert set(await keeper.prepare(machine.gpus)) == {gpu.uuid for gpu in machine.gpus[1:]}
    assert not is_divided(machine)


async def test_a_card_in_use_is_offered_while_mig_is_on(keeper, machine, first):
    await machine.mig.enable(first)
    machine.mig.busy.add(first)
    assert first in await keeper.prepare(machine.gpus)


async def test_while_pods_cannot_be_listed_only_cards_with_mig_are_offered(keeper, machine, first, local_server):
    await machine.mig.enable(first)
    local_server.faults.add(Fault("GET", "/pods", status=403, reason="Forbidden"))
    assert set(await keeper.prepare(machine.gpus)) == {first}


async def test_a_card_that_was_in_use_is_offered_once_it_is_idle(keeper, machine, first):
    machine.mig.busy.add(first)
    await keeper.prepare(machine.gpus)
    assert await keeper.divide_idle() == {}
    machine.mig.busy.clear()
    assert set(await keeper.divide_idle()) == {gpu.uuid for gpu in machine.gpus}
    assert is_divided(machine)


async def test_a_card_of_a_pod_that_rests_is_in_use(keeper, machine, ordinary_pod, local_client):
    await keeper.prepare(machine.gpus)
    await keeper.divide_idle()
    assert not is_divided(machine)
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    await keeper.divide_idle()
    assert is_divided(machine)


async def test_a_pods_unreadable_annotation_keeps_cards_as_they_are(keeper, machine, first, ordinary_pod, local_client):
    machine.mig.busy.add(first)
    await keeper.prepare(machine.gpus)
    machine.mig.busy.clear()
    body = {"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,x,1:;"}}}
    await local_client.patch(PODS, "p", body, namespace="default")
    with pytest.raises(WireError):
        await keeper.divide_idle()
    assert not is_divided(machine)


async def test_the_kubelet_is_told_of_a_card_once_it_is_idle(settings, local_client, machine, first):
    settings = replace(settings, device_split_count=7)
    machine.mig.busy.add(first)
    async with (
        SimulatedKubelet("n1", local_client, settings.plugins_dir) as kubelet,
        NodeAgent(settings, local_client, machine, sleep=hurry),
    ):
        await wait_for_devices(kubelet, 7 * 7)
        machine.mig.busy.clear()
        await wait_for_devices(kubelet, 8 * 7)
