"""Pods on instances that an administrator made: a kubelet and a plugin over real sockets."""

import dataclasses

import pytest
from msgspec.structs import replace

from gpuloom.kube.resources import PODS
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.node.agent import NodeAgent
from gpuloom.node.settings import InjectionSettings
from gpuloom.node.simulated import MachineDescription, SimulatedMachine, load_machine
from gpuloom.wire.keys import NODE_REGISTER
from gpuloom.wire.register import decode_register

from .conftest import LOCK, NODE, Site, hurry, wait_until

SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
WHOLE = load_machine("eight-a100-40gb").cards[0]


def divided(*names):
    return replace(WHOLE, slots=(), instances=names)


@pytest.fixture
def describe():
    return [divided("1g.5gb", "1g.5gb")]


@pytest.fixture
def strategy():
    return "single"


@pytest.fixture
def machine(describe):
    return SimulatedMachine(NODE, MachineDescription(cards=tuple(describe)))


@pytest.fixture
def injection():
    return InjectionSettings()


@pytest.fixture
async def site(local_client, settings, machine, strategy, injection):
    changed = dataclasses.replace(settings, mig_strategy=strategy, injection=injection)
    async with (
        SimulatedKubelet(NODE, local_client, changed.plugins_dir) as kubelet,
        NodeAgent(changed, local_client, machine, sleep=hurry) as agent,
    ):
        yield Site(local_client, changed, machine, kubelet, agent)


async def allocatable(site, **expected):
    """Wait until the kubelet has so many devices of each resource, named without its domain, and of no other."""
    await wait_until(lambda: _has(site, expected))


async def _has(site, wanted):
    present = {f"nvidia.com/{name}": count for name, count in wanted.items()}
    return {name: count for name, count in site.kubelet.allocatable.items() if count} == present


def environment(site, pod):
    return site.kubelet.environments["default", pod, "c"]


async def test_p_06_a_pod_on_an_instance_is_done_and_releases_the_lock(site, machine):
    await allocatable(site, gpu=2)
    pod = await site.create_pod("p")
    await site.bind(pod, f"{machine.gpus[0].devices[0].uuid},NVIDIA,4864,0:;")
    served = await site.wait_for_phase("p", "Running")
    assert (served.annotations["hami.io/bind-phase"], LOCK in (await site.node()).annotations) == ("success", False)


async def test_a_container_sees_the_instance_that_the_kubelet_counts_and_no_limiter(site, machine):
    await allocatable(site, gpu=2)
    pod = await site.create_pod("p")
    await site.bind(pod, f"{machine.gpus[0].devices[0].uuid},NVIDIA,4864,0:;")
    await site.wait_for_phase("p", "Running")
    (held,) = site.kubelet.held_by(pod.metadata.uid)
    assert environment(site, "p") == {"NVIDIA_VISIBLE_DEVICES": held}


async def test_the_instances_are_registered_as_cards(site, machine):
    await site.wait_for_node_annotation(NODE_REGISTER, lambda text: text is not None)
    cards = decode_register((await site.node()).annotations[NODE_REGISTER])
    assert [(card.id, card.count, card.memory_mib) for card in cards] == [
        (device.uuid, 1, 4864) for device in machine.gpus[0].devices
    ]


async def test_an_error_of_one_instance_withdraws_that_instance(site, machine):
    await allocatable(site, gpu=2)
    machine.raise_xid(machine.gpus[0].uuid, 79, (2, 0))
    await allocatable(site, gpu=1)


THREE_RESOURCES = {"gpu": 10, "mig-1g.5gb": 1, "mig-3g.20gb": 1}


class TestCdi:
    """Instances whose names the container runtime looks up; a script stands for NVIDIA's tool."""

    @pytest.fixture(autouse=True)
    def calls(self, tmp_path, monkeypatch):
        """Where the tool writes a line for each call."""
        tool = tmp_path / "nvidia-ctk"
        tool.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path / "calls"

    @pytest.fixture
    def injection(self):
        return InjectionSettings(list_strategies=("cdi-cri",), driver_root_here="/nowhere")

    async def test_the_specification_is_written_anew_for_other_instances(self, site, machine, calls):
        await allocatable(site, gpu=2)
        machine.mig.divide({machine.gpus[0].uuid: ("1g.5gb", "1g.5gb", "1g.5gb")})
        await allocatable(site, gpu=3)
        await wait_until(lambda: _is_written(calls, times=2))


async def _is_written(calls, *, times):
    return len(calls.read_text().splitlines()) == times


class TestMixed:
    """Instances as resources of their own, beside whole cards."""

    @pytest.fixture
    def describe(self):
        return [divided("3g.20gb", "1g.5gb"), divided()]

    @pytest.fixture
    def strategy(self):
        return "mixed"

    async def test_each_profile_is_a_resource(self, site):
        await allocatable(site, **THREE_RESOURCES)

    async def test_only_whole_cards_are_registered(self, site, machine):
        await site.wait_for_node_annotation(NODE_REGISTER, lambda text: text is not None)
        cards = decode_register((await site.node()).annotations[NODE_REGISTER])
        assert [card.id for card in cards] == [machine.gpus[1].uuid]

    async def test_a_pod_gets_the_instance_that_the_kubelet_chose(self, site, machine):
        await allocatable(site, **THREE_RESOURCES)
        await run_on_instance(site, "p", SMALL)
        assert environment(site, "p") == {"NVIDIA_VISIBLE_DEVICES": machine.gpus[0].devices[1].uuid}

    async def test_a_pod_on_an_instance_takes_nothing_of_the_pod_that_holds_the_lock(self, site, machine):
        await allocatable(site, **THREE_RESOURCES)
        await site.annotate_node({LOCK: "2026-01-01T00:00:00Z,default,waits"})
        await run_on_instance(site, "p", LARGE)
        waiting = await site.create_pod("waits")
        await site.bind(waiting, f"{machine.gpus[1].uuid},NVIDIA,1000,10:;")
        await site.wait_for_phase("waits", "Running")
        assert environment(site, "waits")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1000m"

    async def test_another_profile_is_another_resource_at_once(self, site, machine):
        await allocatable(site, **THREE_RESOURCES)
        machine.mig.divide({machine.gpus[0].uuid: ("1g.5gb", "1g.5gb")})
        await allocatable(site, **{"gpu": 10, "mig-1g.5gb": 2})


async def run_on_instance(site, name, resource):
    """Run a pod that no scheduler of ours bound."""
    body = {
        "metadata": {"name": name, "labels": {"test": "node-agent"}},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}],
        },
    }
    await site.client.create(PODS, body, namespace="default")
    await site.wait_for_phase(name, "Running")
