"""Starting, stopping and starting again."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import grpc
import pytest
from structlog.testing import capture_logs

from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.node.agent import NodeAgent
from gpuloom.node.allocate import Allocator
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginStub, RegistrationStub
from gpuloom.node.errors import ConfigurationError, CrashLoopError, DriverMissingError, KubeletError, NodeError
from gpuloom.node.process import run_device_plugin, run_reloadable
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.node.sockets import dial

RESOURCE = "nvidia.com/gpu"


async def hurry(seconds):
    await asyncio.sleep(seconds / 100)


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("two-t4"))


@pytest.fixture
def agent(local_client, settings, machine):
    """An agent that was not started; its polls are a hundred times faster."""
    return NodeAgent(settings, local_client, machine, sleep=hurry)


@pytest.fixture
def kubelet(local_client, settings):
    return SimulatedKubelet("n1", local_client, settings.plugins_dir)


async def has_devices(kubelet, count):
    async with asyncio.timeout(60):
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


async def test_a_kubelet_that_comes_while_the_cards_are_read_is_registered_with_once(
    settings, local_client, machine, kubelet
):
    polls = asyncio.Semaphore(0)
    read_gpus = machine.read_gpus

    async def read_while_the_kubelet_starts():
        machine.read_gpus = read_gpus
        await stack.enter_async_context(kubelet)
        return await read_gpus()

    async def count_polls(seconds):
        polls.release()
        await hurry(seconds)

    machine.read_gpus = read_while_the_kubelet_starts
    async with AsyncExitStack() as stack:
        with capture_logs() as logs:
            async with NodeAgent(settings, local_client, machine, sleep=count_polls):
                await has_devices(kubelet, 20)
                for _ in range(20):
                    await polls.acquire()
    assert [each["event"] for each in logs].count("device plugin is registered") == 1


async def test_nothing_is_remembered_of_what_the_last_kubelet_was_given(agent, kubelet, monkeypatch):
    met: list[Allocator] = []

    def note(allocator: Allocator) -> None:
        met.append(allocator)

    monkeypatch.setattr(Allocator, "meet_kubelet", note)
    async with agent, kubelet:
        await has_devices(kubelet, 20)
        await kubelet.restart()
        async with asyncio.timeout(60):
            while len(met) < 2:  # noqa: ASYNC110 - a plugin announces nothing
                await asyncio.sleep(0.01)


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


async def test_what_cannot_be_replaced_by_a_socket_is_told_and_tried_again(agent, kubelet, settings):
    """Whoever mounts a file that is not there gets a folder."""
    settings.plugin_socket.mkdir(parents=True)
    with capture_logs() as logs:
        async with kubelet, agent:
            async with asyncio.timeout(60):
                while not any("did not start" in log["event"] for log in logs):  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.01)
            settings.plugin_socket.rmdir()
            await has_devices(kubelet, 20)


async def test_a_stale_lock_file_of_a_division_is_removed_at_the_start(agent, kubelet, settings):
    settings.mig_lock.parent.mkdir(parents=True)
    settings.mig_lock.touch()
    async with kubelet, agent:
        await has_devices(kubelet, 20)
        assert not settings.mig_lock.exists()


async def test_the_process_ends_when_it_is_cancelled(kubelet, local_client, settings, machine):
    async with kubelet:
        process = asyncio.create_task(run_device_plugin(settings, local_client, machine))
        await has_devices(kubelet, 20)
        process.cancel()
        await asyncio.wait({process})
        assert process.cancelled()


async def test_p_07_the_options_are_those_of_the_registration(agent, kubelet, settings):
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


class AbsentDriver(SimulatedMachine):
    """A machine whose driver is missing until it is loaded."""

    is_loaded = False

    async def read_gpus(self):
        if not self.is_loaded:
            raise DriverMissingError("no NVIDIA driver answers on this machine")
        return await super().read_gpus()


@pytest.fixture
def absent():
    return AbsentDriver("n1", load_machine("two-t4"))


async def test_a_missing_driver_ends_the_process(settings, local_client, absent, kubelet):
    async with kubelet:
        with pytest.raises(DriverMissingError, match="no NVIDIA driver"):
            await run_device_plugin(settings, local_client, absent)


async def test_a_missing_driver_is_waited_for_where_that_is_wanted(settings, local_client, absent, kubelet):
    patient = replace(settings, fail_on_init_error=False)
    async with kubelet, NodeAgent(patient, local_client, absent, sleep=hurry):
        absent.is_loaded = True
        await has_devices(kubelet, 20)


async def test_a_driver_that_went_away_is_waited_for(settings, local_client, absent, kubelet):
    absent.is_loaded = True
    async with kubelet, NodeAgent(settings, local_client, absent, sleep=hurry):
        await has_devices(kubelet, 20)
        absent.is_loaded = False
        await kubelet.restart()
        await has_devices(kubelet, 0)
        absent.is_loaded = True
        await has_devices(kubelet, 20)


async def lose_socket(kubelet, settings):
    """Remove the plugin's socket as a stranger would, and return when the kubelet has noticed."""
    await has_devices(kubelet, 20)
    before = settings.plugin_socket.stat().st_ino, settings.plugin_socket.stat().st_mtime_ns
    settings.plugin_socket.unlink()
    async with asyncio.timeout(60):
        while not settings.plugin_socket.exists() or before == (  # noqa: ASYNC110 - a file announces nothing
            settings.plugin_socket.stat().st_ino,
            settings.plugin_socket.stat().st_mtime_ns,
        ):
            await asyncio.sleep(0.01)


async def test_a_socket_removed_by_others_is_served_again(agent, kubelet, settings):
    async with kubelet, agent:
        await lose_socket(kubelet, settings)
        await has_devices(kubelet, 20)


async def lose_six_sockets(agent, kubelet, settings):
    async with agent:
        for _ in range(5):
            await lose_socket(kubelet, settings)
        await has_devices(kubelet, 20)
        settings.plugin_socket.unlink()
        await agent.run()


async def test_a_socket_removed_again_and_again_ends_the_process(agent, kubelet, settings):
    async with kubelet:
        with pytest.raises(CrashLoopError, match=r"nvidia-gpu\.sock was removed or replaced"):
            await lose_six_sockets(agent, kubelet, settings)


@pytest.fixture
def reloadable(settings, local_client, machine):
    """A process whose settings a test may change; `serve` runs it, `reload` is its SIGHUP."""

    class Reloadable:
        def __init__(self):
            self.settings = settings
            self.error = None
            self.reload = asyncio.Event()
            self.loads = 0
            self.after_load = lambda: None

        def load(self):
            self.loads += 1
            if self.error:
                raise self.error
            asyncio.get_running_loop().call_soon(self.after_load)
            return self.settings

        async def serve(self):
            await run_reloadable(self.load(), self.load, local_client, machine, self.reload)

    return Reloadable()


async def test_an_end_that_comes_while_the_plugin_starts_again_is_not_lost(agent, kubelet, monkeypatch):
    server_type, stopping, called = type(grpc.aio.server()), asyncio.Event(), asyncio.Event()
    stop = server_type.stop

    async def lose_cancellation(server, grace):
        """As in Python 3.11, where the wait for the calls that are underway may end normally when it is cancelled."""
        if grace is not None:
            stopping.set()
            with suppress(asyncio.CancelledError):
                await called.wait()
        await stop(server, grace)

    monkeypatch.setattr(server_type, "stop", lose_cancellation)
    async with asyncio.timeout(60), kubelet, agent:
        await has_devices(kubelet, 20)
        await kubelet.restart()
        await stopping.wait()
        asyncio.get_running_loop().call_soon(called.set)


async def test_a_reload_takes_new_settings_over(reloadable, kubelet, settings):
    async with kubelet:
        process = asyncio.create_task(reloadable.serve())
        await has_devices(kubelet, 20)
        reloadable.settings = replace(settings, device_split_count=3)
        reloadable.reload.set()
        await has_devices(kubelet, 6)
        process.cancel()
        await asyncio.wait({process})


async def test_a_reload_that_comes_while_the_old_plugin_stops_is_not_lost(reloadable, kubelet, settings):
    def change_once_more():
        reloadable.after_load = lambda: None
        reloadable.settings = replace(settings, device_split_count=3)
        reloadable.reload.set()

    async with kubelet:
        process = asyncio.create_task(reloadable.serve())
        await has_devices(kubelet, 20)
        reloadable.after_load = change_once_more
        reloadable.reload.set()
        await has_devices(kubelet, 6)
        process.cancel()
        await asyncio.wait({process})


async def test_a_reload_with_broken_settings_goes_on_as_before(reloadable, kubelet):
    async with kubelet:
        process = asyncio.create_task(reloadable.serve())
        await has_devices(kubelet, 20)
        reloadable.error = ConfigurationError("device configuration c.yaml: is broken")
        reloadable.reload.set()
        async with asyncio.timeout(60):
            while reloadable.loads < 2:  # noqa: ASYNC110 - the process announces nothing
                await asyncio.sleep(0.01)
        assert not process.done()
        process.cancel()
        await asyncio.wait({process})


async def test_broken_settings_at_the_start_end_the_process(reloadable):
    reloadable.error = ConfigurationError("device configuration c.yaml: is broken")
    with pytest.raises(ConfigurationError, match="is broken"):
        await reloadable.serve()


async def test_a_process_that_fails_ends_although_it_could_be_reloaded(reloadable, settings):
    settings.on_this_side(settings.library).unlink()
    with pytest.raises(NodeError, match="is missing"):
        await reloadable.serve()
