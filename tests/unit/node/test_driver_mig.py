"""Dividing a card through NVIDIA's Python library and a stub of the library below it."""

import pynvml
import pytest

from gpuloom.model.mig import MigPlacement, MigRuntime
from gpuloom.node.errors import CardReadError, HalfMadeError
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import MigDevice, Part, PartProfile
from harness.stubdriver import StubInstance, StubProcess, a100


@pytest.fixture
def library(make_stub_driver):
    return make_stub_driver(a100("GPU-a"))


@pytest.fixture
async def mig(library, tmp_path):
    async with DriverNvml(pynvml, sysfs=tmp_path) as driver:
        yield driver.mig


async def test_a_card_that_is_switched_on_can_be_divided(library, tmp_path):
    async with DriverNvml(pynvml, sysfs=tmp_path) as driver:
        assert [gpu.can_be_divided for gpu in await driver.read_gpus()] == [True]


async def test_a_divided_card_has_the_instances_that_the_driver_shows(library, mig, tmp_path):
    await mig.create_part("GPU-a", "3g.20gb", MigPlacement(4, 4))
    async with DriverNvml(pynvml, sysfs=tmp_path) as driver:
        (gpu,) = await driver.read_gpus()
    assert gpu.devices == (MigDevice("MIG-a-1", "3g.20gb", 20096, 1, 0),)


async def test_profiles_are_what_the_driver_tells_without_its_prefix(mig):
    assert (await mig.read_profiles("GPU-a"))[1] == PartProfile(
        "3g.20gb", 20096, 42, 2, (MigPlacement(0, 4), MigPlacement(4, 4))
    )


async def test_profiles_that_cannot_be_read_are_an_error(mig, library):
    library.fail("nvmlDeviceGetGpuInstanceProfileInfoV", pynvml.NVML_ERROR_UNKNOWN, card=0)
    with pytest.raises(CardReadError, match="cannot tell the MIG profiles of card GPU-a"):
        await mig.read_profiles("GPU-a")


@pytest.mark.parametrize(
    ("key", "text"), [("multiprocessors", "no multiprocessors of a MIG"), ("size", "no slices of a MIG")]
)
async def test_a_profile_of_nothing_is_an_error(mig, library, key, text):
    """Its part of the card would be divided by nothing, and given without end."""
    library.cards[0].mig_profiles = [profile | {key: 0} for profile in library.cards[0].mig_profiles]
    library.write()
    with pytest.raises(CardReadError, match=text):
        await mig.read_profiles("GPU-a")


async def is_divisible(sysfs):
    async with DriverNvml(pynvml, sysfs=sysfs) as driver:
        (gpu,) = await driver.read_gpus()
    return gpu.can_be_divided


@pytest.mark.parametrize("mode", [0, 1])
async def test_a_card_is_switched_on(mig, library, tmp_path, mode):
    library.cards[0].mig_mode = mode
    library.write()
    await mig.enable("GPU-a")
    assert await is_divisible(tmp_path)


async def test_a_card_that_needs_a_reset_says_so(mig, library):
    library.cards[0].mig_mode = 0
    library.write()
    library.cards[0].needs_reset = True
    library.write()
    with pytest.raises(CardReadError, match="nvidia-smi --gpu-reset -i GPU-a"):
        await mig.enable("GPU-a")


async def test_an_instance_is_made_whole_and_in_its_place(mig):
    runtime = await mig.create_part("GPU-a", "3g.20gb", MigPlacement(4, 4))
    assert await mig.list_parts("GPU-a") == (Part(1, "3g.20gb", MigPlacement(4, 4), runtime),)


async def test_an_instance_is_called_what_the_driver_calls_it(mig):
    await mig.create_part("GPU-a", "1g.5gb", MigPlacement(0, 1))
    assert await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1)) == MigRuntime("MIG-a-2", 2, 0)


async def test_an_instance_of_an_unknown_profile_is_refused(mig):
    with pytest.raises(CardReadError, match="card GPU-a has no MIG profile 9g"):
        await mig.create_part("GPU-a", "9g.90gb", MigPlacement(0, 1))


async def test_an_instance_that_stays_half_made_is_taken_back(mig, library):
    library.fail("nvmlGpuInstanceCreateComputeInstance", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(CardReadError, match=r"cannot make a MIG instance 1g\.5gb at 6"):
        await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    assert await mig.list_parts("GPU-a") == ()


async def test_an_instance_is_destroyed_with_what_is_in_it(mig, library):
    runtime = await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    await mig.destroy_part("GPU-a", runtime.gpu_instance_id)
    assert await mig.list_parts("GPU-a") == ()


async def test_an_instance_that_is_gone_need_not_be_destroyed(mig):
    await mig.destroy_part("GPU-a", 42)


async def test_an_instance_in_use_is_not_destroyed(mig, library):
    runtime = await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    library.fail("nvmlComputeInstanceDestroy", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(CardReadError, match="cannot destroy MIG instance 1"):
        await mig.destroy_part("GPU-a", runtime.gpu_instance_id)
    assert len(await mig.list_parts("GPU-a")) == 1


async def test_an_instance_that_others_left_half_made_has_no_name(mig, library):
    library.cards[0].instances.append(StubInstance(1, 19, 2, has_compute=False))
    library.write()
    assert [(part.placement.start, part.runtime) for part in await mig.list_parts("GPU-a")] == [(2, None)]


async def test_a_card_that_is_not_divided_has_no_instances(mig, library):
    library.cards[0].mig_mode = 0
    library.write()
    assert await mig.list_parts("GPU-a") == ()


async def test_a_card_is_busy_when_a_program_computes_on_it(mig, library):
    assert not await mig.is_busy("GPU-a")
    library.cards[0].processes.append(StubProcess(4711))
    library.write()
    assert await mig.is_busy("GPU-a")


async def test_a_card_is_busy_when_a_program_computes_on_an_instance(mig, library):
    await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    library.cards[0].processes.append(StubProcess(4711, gpu_instance=1))
    library.write()
    assert await mig.is_busy("GPU-a")


async def test_only_the_instance_on_which_a_program_computes_is_busy(mig, library):
    parts = [await mig.create_part("GPU-a", "1g.5gb", MigPlacement(start, 1)) for start in (5, 6)]
    library.cards[0].processes.append(StubProcess(4711, gpu_instance=1))
    library.write()
    assert [await mig.is_part_busy("GPU-a", part.gpu_instance_id) for part in parts] == [True, False]


async def test_an_instance_that_can_neither_be_finished_nor_taken_back_is_told_apart(mig, library):
    library.fail("nvmlGpuInstanceCreateComputeInstance", pynvml.NVML_ERROR_UNKNOWN)
    library.fail("nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(HalfMadeError, match=r"MIG instance 1g\.5gb at 6 of card GPU-a cannot be finished"):
        await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    assert len(await mig.list_parts("GPU-a")) == 1
