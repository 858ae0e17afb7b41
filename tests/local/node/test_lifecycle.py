"""Starting, stopping and starting again."""

import asyncio
from dataclasses import replace

import pytest

from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.node.agent import NodeAgent
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginStub, RegistrationStub
from gpuloom.node.errors import KubeletError, NodeError
from gpuloom.node.process import run_device_plugin
from gpuloom.node.server import dial
from gpuloom.node.simulated import SimulatedMachine, load_machine

RESOURCE = "nvidia.com/gpu"


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("two-t4"))


@pytest.fixture
def agent(local_client, settings, machine):
    """An agent that was not started; its polls are a hundred times faster."""

    async def hurry(seconds):
        await asyncio.sleep(seconds / 100)

    return NodeAgent(settings, local_client, machine, sleep=hurry)


@pytest.fixture
def kubelet(local_client, settings):
    return SimulatedKubelet("n1", local_client, settings.plugins_dir)


async def has_devices(kubelet, count):
    async with asyncio.timeout(20):
        while kubelet.allocatable.get(RESOURCE) != count:  # noqa: ASYNC110 - the kubelet announces nothing
            await asyncio.sleep(0.01)


async def test_a_missing_library_is_told_at_the_start(settings, local_client, machine):
    settings.on_this_side(settings.library).unlink()
    with pytest.raises(NodeError, match=r"usr/local/vgpu/libvgpu\.so is missing: install HAMi-core"):
        await run_device_plugin(settings, local_client, machine)


async def test_too_long_a_directory_is_told_at_the_start(settings, local_client, machine):
    deep = replace(settings, plugins_dir=settings.plugins_dir / ("d" * 100))
    with pytest.raises(KubeletError, match="the system allows 107"):
        await run_device_plugin(deep, local_client, machine)


async def test_an_agent_that_starts_before_its_kubelet_registers_when_that_comes(agent, kubelet):
    async with agent, kubelet:
        await has_devices(kubelet, 20)


async def test_a_kubelet_whose_plugin_stopped_has_nothing_to_give(agent, kubelet):
    async with kubelet:
        async with agent:
            await has_devices(kubelet, 20)
        await has_devices(kubelet, 0)


async def test_a_stopped_agent_leaves_no_socket(agent, kubelet, settings):
    async with kubelet:
        async with agent:
            await has_devices(kubelet, 20)
        assert not settings.plugin_socket.exists()


async def test_an_agent_may_be_left_twice(agent, kubelet):
    async with kubelet:
        async with agent:
            await has_devices(kubelet, 20)
        await agent.__aexit__(None, None, None)


async def test_an_agent_may_be_entered_again(agent, kubelet):
    async with kubelet:
        async with agent:
            await has_devices(kubelet, 20)
        async with agent:
            await has_devices(kubelet, 20)


async def test_a_socket_left_behind_is_replaced(agent, kubelet, settings):
    async with kubelet:
        settings.plugin_socket.touch()
        async with agent:
            await has_devices(kubelet, 20)


async def test_the_process_ends_when_it_is_cancelled(kubelet, local_client, settings, machine):
    async with kubelet:
        process = asyncio.create_task(run_device_plugin(settings, local_client, machine))
        await has_devices(kubelet, 20)
        process.cancel()
        await asyncio.wait({process})
        assert process.cancelled()


async def test_the_options_are_those_of_the_registration(agent, kubelet, settings):
    async with kubelet, agent:
        await has_devices(kubelet, 20)
        async with dial(settings.plugin_socket) as channel:
            options = await DevicePluginStub(channel).GetDevicePluginOptions(api.Empty())
        assert (options.pre_start_required, options.get_preferred_allocation_available) == (False, False)


async def test_every_device_is_a_replica_of_a_card(agent, kubelet, settings, machine):
    async with kubelet, agent:
        await has_devices(kubelet, 20)
        async with dial(settings.plugin_socket) as channel:
            stream = DevicePluginStub(channel).ListAndWatch(api.Empty())
            devices = (await stream.read()).devices
            stream.cancel()
        expected = {f"{gpu.uuid}-{replica}" for gpu in machine.gpus for replica in range(10)}
        assert {device.ID for device in devices} == expected


async def test_the_simulated_kubelet_refuses_another_api_version(kubelet, settings):
    async with kubelet, dial(settings.kubelet_socket) as channel:
        with pytest.raises(Exception, match="v1beta1"):
            await RegistrationStub(channel).Register(api.RegisterRequest(version="v9"))
