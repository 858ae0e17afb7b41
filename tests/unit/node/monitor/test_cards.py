"""What happens on cards, from the driver's library and from simulated cards."""

import pynvml
import pytest

from gpuloom.node.errors import CardReadError, DriverMissingError, MachineError
from gpuloom.node.monitor.cards import CardProcess, CardUse, CardWatch
from gpuloom.node.monitor.nvidia import NvidiaCardUse
from gpuloom.node.monitor.simulated import SimulatedCardUse
from gpuloom.node.simulated import SimulatedFault, SimulatedMachine, load_machine
from harness.stubdriver import StubCard, StubProcess


async def read():
    async with NvidiaCardUse(pynvml) as source:
        return await source.read()


def busy(uuid, **more):
    return StubCard(
        uuid,
        used_bytes=1000,
        utilization={"gpu": 80, "memory": 20},
        processes=[StubProcess(42, 500), StubProcess(43)],
        **more,
    )


async def test_the_driver_tells_what_happens_on_a_card(make_stub_driver):
    make_stub_driver(busy("GPU-a"))
    processes = (CardProcess(42, 500), CardProcess(43, None))
    assert (await read()).cards == (CardUse("GPU-a", 0, "NVIDIA A40", 1000, 80, 20, processes),)


async def test_a_card_that_does_not_tell_its_load_is_reported_without(make_stub_driver):
    make_stub_driver(busy("GPU-a", errors={"nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NOT_SUPPORTED}))
    (card,) = (await read()).cards
    assert (card.gpu_percent, card.memory_controller_percent) == (None, None)


async def test_a_card_without_memory_of_its_own_is_reported_without(make_stub_driver):
    make_stub_driver(busy("GPU-a", memory_bytes=None))
    (card,) = (await read()).cards
    assert card.memory_used_bytes is None


async def test_what_the_driver_keeps_for_itself_is_not_in_use(make_stub_driver):
    make_stub_driver(busy("GPU-a", reserved_bytes=615 * 2**20))
    (card,) = (await read()).cards
    assert card.memory_used_bytes == 1000


async def test_a_driver_that_lacks_the_newest_question_for_memory_is_asked_the_one_before(make_stub_driver):
    errors = {"nvmlDeviceGetMemoryInfo_v2": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    make_stub_driver(busy("GPU-a", reserved_bytes=24, errors=errors))
    (card,) = (await read()).cards
    assert card.memory_used_bytes == 1024


async def test_a_lost_card_does_not_hide_the_others(make_stub_driver):
    make_stub_driver(busy("GPU-a", errors={"nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST}), busy("GPU-b"))
    reading = await read()
    assert ([card.uuid for card in reading.cards], list(reading.failures)) == (["GPU-b"], ["card 0"])


async def test_a_driver_that_lacks_the_newest_question_for_processes_is_asked_the_one_before(make_stub_driver):
    question = "nvmlDeviceGetComputeRunningProcesses_v3"
    make_stub_driver(busy("GPU-a", errors={question: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}))
    (card,) = (await read()).cards
    assert [process.pid for process in card.processes] == [42, 43]


async def test_a_missing_driver_is_said_to_be_missing(make_stub_driver):
    make_stub_driver().fail("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(DriverMissingError, match="no NVIDIA driver"):
        await read()


async def test_a_failing_driver_is_begun_anew(make_stub_driver):
    driver = make_stub_driver(busy("GPU-a"))
    driver.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNINITIALIZED)
    async with NvidiaCardUse(pynvml) as source:
        with pytest.raises(CardReadError):
            await source.read()
        driver.mend()
        await source.read()
    assert driver.count("nvmlInitWithFlags") == 2


async def test_a_driver_that_failed_is_let_go_as_often_as_it_was_taken(make_stub_driver):
    """The library counts, and a card cannot be divided while anybody holds it."""
    driver = make_stub_driver(busy("GPU-a"))
    async with NvidiaCardUse(pynvml) as source:
        for _ in range(3):
            driver.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNKNOWN)
            with pytest.raises(CardReadError):
                await source.read()
            driver.mend()
        await source.read()
        await source.release()
    assert driver.count("nvmlShutdown") == driver.count("nvmlInitWithFlags")


async def test_the_driver_is_let_go_once_and_taken_again(make_stub_driver):
    driver = make_stub_driver(busy("GPU-a"))
    async with NvidiaCardUse(pynvml) as source:
        await source.read()
        await source.release()
        await source.release()
        await source.read()
    assert (driver.count("nvmlShutdown"), driver.count("nvmlInitWithFlags")) == (1, 2)


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("two-t4"))


@pytest.fixture
def source(machine):
    return SimulatedCardUse(machine)


@pytest.fixture
def watch(source, tmp_path):
    async def sleep(seconds):
        raise NotImplementedError

    return CardWatch(source, tmp_path / "mig.lock", period_s=5, sleep=sleep)


async def test_simulated_processes_use_memory(machine, source):
    uuid = machine.gpus[1].uuid
    source.run(uuid, CardProcess(1, 100), CardProcess(2, 50))
    source.set_load(uuid, gpu_percent=70, memory_controller_percent=30)
    _, card = (await source.read()).cards
    assert (card.uuid, card.memory_used_bytes, card.gpu_percent, card.memory_controller_percent) == (uuid, 150, 70, 30)


def test_a_card_that_is_not_simulated_is_refused(source):
    with pytest.raises(MachineError, match="no card GPU-x"):
        source.run("GPU-x")


async def test_cards_are_let_go_while_one_is_divided(watch, source, tmp_path):
    await watch.read()
    (tmp_path / "mig.lock").touch()
    await watch.read()
    assert (watch.reading, source.is_held, watch.is_paused) == (None, False, True)


async def test_cards_are_read_again_when_that_is_over(watch, tmp_path):
    (tmp_path / "mig.lock").touch()
    await watch.read()
    (tmp_path / "mig.lock").unlink()
    await watch.read()
    assert len(watch.reading.cards) == 2


async def test_a_driver_that_fails_leaves_nothing_to_tell(watch, machine):
    await watch.read()
    machine.set_faults([SimulatedFault(kind="failing")])
    await watch.read()
    assert watch.reading is None
