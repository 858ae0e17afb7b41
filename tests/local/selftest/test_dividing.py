"""The self-test's step that divides a card, over the stub of NVIDIA's library, and that it puts the card back."""

import asyncio

import pynvml
import pytest

from gpuloom.local.selftest.dividing import try_dividing
from gpuloom.local.selftest.report import SkipStepError, StepFailedError
from gpuloom.node.nvidia import DriverNvml
from harness.stubdriver import StubCard, StubInstance, StubProcess, a100

CREATE, COMPLETE = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"
DESTROY, SWITCH = "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"


@pytest.fixture
def machine(make_stub_driver, tmp_path):
    """Make a machine of some cards: the stub, and gpuloom's reading of it."""
    return lambda *cards: (make_stub_driver(*cards), DriverNvml(pynvml, sysfs=tmp_path))


async def divide(nvml):
    async with nvml:
        before = await nvml.read_gpus()
        found = await try_dividing(nvml, before)
        assert await nvml.read_gpus() == before
    return found


def switched(driver):
    """Return to which modes cards were switched, in order."""
    return [call[2] for call in driver.calls if call[0] == "switched"]


async def test_a_whole_card_is_divided_and_whole_again(machine):
    driver, nvml = machine(StubCard("GPU-l"), a100("GPU-a", mig_mode=0))
    found = await divide(nvml)
    assert found == "card GPU-a was divided, its MIG instance 1g.5gb is seen and answers; the card is as before"
    assert (switched(driver), driver.count(CREATE), driver.count(DESTROY)) == (["1", "0"], 1, 1)


async def test_what_a_divided_card_has_stays(machine):
    driver, nvml = machine(a100("GPU-a", instances=[StubInstance(3, 9, 0)]))
    await divide(nvml)
    assert (switched(driver), driver.count(CREATE), driver.count(DESTROY)) == ([], 1, 1)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (StubCard("GPU-l", "NVIDIA L4"), "NVIDIA L4 cannot be divided (MIG)"),
        (a100("GPU-a", mig_mode=0, processes=[StubProcess(1)]), "card GPU-a is in use and stays as it is"),
        (
            a100("GPU-a", instances=[StubInstance(1, 9, 0), StubInstance(2, 9, 4)]),
            "card GPU-a has no room for a MIG instance 1g.5gb",
        ),
    ],
    ids=["no MIG", "in use", "full"],
)
async def test_a_card_that_cannot_be_divided_is_left_alone(machine, card, said):
    driver, nvml = machine(card)
    with pytest.raises(SkipStepError) as skipped:
        await divide(nvml)
    assert str(skipped.value) == said
    assert (switched(driver), driver.count(CREATE)) == ([], 0)


async def test_a_card_that_needs_a_reset_to_be_divided_does_not_wait_for_it(machine):
    driver, nvml = machine(a100("GPU-a", mig_mode=0, needs_reset=True))
    with pytest.raises(SkipStepError, match="only after a reset"):
        await divide(nvml)
    assert (switched(driver), driver.count(CREATE)) == (["1", "0"], 0)


@pytest.mark.parametrize("function", [CREATE, COMPLETE])
async def test_a_card_on_which_a_step_fails_is_put_back(machine, function, tmp_path):
    driver, nvml = machine(a100("GPU-a", mig_mode=0))
    driver.fail(function, pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(StepFailedError, match="cannot make a MIG instance"):
        await divide(nvml)
    assert switched(driver) == ["1", "0"]
    async with DriverNvml(pynvml, sysfs=tmp_path) as again:
        (gpu,) = await again.read_gpus()
    assert not gpu.can_be_divided


async def test_an_instance_that_is_not_what_was_asked_for_is_found_out(machine):
    driver, nvml = machine(a100("GPU-a", mig_mode=0))
    driver.answer("nvmlDeviceGetName", "NVIDIA A100-SXM4-40GB MIG 7g.40gb")
    with pytest.raises(StepFailedError, match=r"MIG instance MIG-a-1 is a 7g\.40gb, 1g\.5gb was asked for"):
        await divide(nvml)
    assert switched(driver) == ["1", "0"]


async def test_a_card_that_cannot_be_put_back_is_told_with_what_to_do(machine):
    driver, nvml = machine(a100("GPU-a", mig_mode=0))
    driver.fail(DESTROY, pynvml.NVML_ERROR_IN_USE)
    with pytest.raises(StepFailedError, match="could not be put back") as failed:
        await divide(nvml)
    assert str(failed.value).endswith(
        "destroy the instance at 0:1 that nvidia-smi mig -i GPU-a -lgi lists, then run nvidia-smi -i GPU-a -mig 0"
    )


async def test_a_card_is_put_back_after_the_call_during_which_it_was_stopped(machine, tmp_path):
    driver, nvml = machine(a100("GPU-a", mig_mode=0))
    driver.hang(CREATE)
    async with nvml:
        task = asyncio.create_task(try_dividing(nvml, await nvml.read_gpus()))
        while not driver.count(CREATE):  # noqa: ASYNC110 - the library is on a thread of its own
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        driver.mend()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (switched(driver), driver.count(CREATE), driver.count(DESTROY)) == (["1", "0"], 1, 1)
