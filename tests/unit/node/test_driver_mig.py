"""Dividing a card through a library that is not the real one but has its functions."""

import pynvml
import pytest
from unit.node.fake_mig import FakeMigNvml

from gpuloom.model.mig import MigPlacement, MigRuntime
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import MigDevice, Part, PartProfile


@pytest.fixture
def library():
    return FakeMigNvml()


@pytest.fixture
async def mig(library, tmp_path):
    async with DriverNvml(library, sysfs=tmp_path) as driver:
        yield driver.mig


def test_every_function_of_the_fake_is_one_of_the_real_library():
    names = [name for name in dir(FakeMigNvml) if name.startswith(("nvml", "NVML", "c_nvml"))]
    assert [name for name in names if not hasattr(pynvml, name)] == []


async def test_a_card_that_is_switched_on_can_be_divided(library, tmp_path):
    async with DriverNvml(library, sysfs=tmp_path) as driver:
        assert [gpu.can_be_divided for gpu in await driver.read_gpus()] == [True]


async def test_a_divided_card_has_the_instances_that_the_driver_shows(library, mig, tmp_path):
    await mig.create_part("GPU-a", "3g.20gb", MigPlacement(4, 4))
    async with DriverNvml(library, sysfs=tmp_path) as driver:
        (gpu,) = await driver.read_gpus()
    assert gpu.devices == (MigDevice("MIG-1", "3g.20gb", 20096, 1, 0),)


async def test_profiles_are_what_the_driver_tells_without_its_prefix(mig):
    assert (await mig.read_profiles("GPU-a"))[1] == PartProfile(
        "3g.20gb", 20096, 42, 2, (MigPlacement(0, 4), MigPlacement(4, 4))
    )


async def test_profiles_that_cannot_be_read_are_an_error(mig, library):
    library.cards[0].errors["nvmlDeviceGetGpuInstanceProfileInfo"] = library.NVML_ERROR_UNKNOWN
    with pytest.raises(CardReadError, match="cannot tell the MIG profiles of card GPU-a"):
        await mig.read_profiles("GPU-a")


@pytest.mark.parametrize("mode", [0, 1])
async def test_a_card_is_switched_on(mig, library, mode):
    library.cards[0].mig_mode = mode
    await mig.enable("GPU-a")
    assert library.cards[0].mig_mode == 1


async def test_a_card_that_needs_a_reset_says_so(mig, library):
    library.cards[0].mig_mode = 0
    library.needs_reset = True
    with pytest.raises(CardReadError, match="nvidia-smi --gpu-reset -i GPU-a"):
        await mig.enable("GPU-a")


async def test_an_instance_is_made_whole_and_in_its_place(mig):
    runtime = await mig.create_part("GPU-a", "3g.20gb", MigPlacement(4, 4))
    assert await mig.list_parts("GPU-a") == (Part(1, "3g.20gb", MigPlacement(4, 4), runtime),)


async def test_an_instance_is_called_what_the_driver_calls_it(mig):
    await mig.create_part("GPU-a", "1g.5gb", MigPlacement(0, 1))
    assert await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1)) == MigRuntime("MIG-2", 2, 0)


async def test_an_instance_of_an_unknown_profile_is_refused(mig):
    with pytest.raises(CardReadError, match="card GPU-a has no MIG profile 9g"):
        await mig.create_part("GPU-a", "9g.90gb", MigPlacement(0, 1))


async def test_an_instance_that_stays_half_made_is_taken_back(mig, library):
    library.errors["nvmlGpuInstanceCreateComputeInstance"] = library.NVML_ERROR_UNKNOWN
    with pytest.raises(CardReadError, match=r"cannot make a MIG instance 1g\.5gb at 6"):
        await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    assert library.instances == []


async def test_an_instance_is_destroyed_with_what_is_in_it(mig, library):
    runtime = await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    await mig.destroy_part("GPU-a", runtime.gpu_instance_id)
    assert library.instances == []


async def test_an_instance_that_is_gone_need_not_be_destroyed(mig):
    await mig.destroy_part("GPU-a", 42)


async def test_an_instance_in_use_is_not_destroyed(mig, library):
    runtime = await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    library.errors["nvmlComputeInstanceDestroy"] = library.NVML_ERROR_UNKNOWN
    with pytest.raises(CardReadError, match="cannot destroy MIG instance 1"):
        await mig.destroy_part("GPU-a", runtime.gpu_instance_id)
    assert len(library.instances) == 1


async def test_an_instance_that_others_left_half_made_has_no_name(mig, library):
    library.nvmlDeviceCreateGpuInstanceWithPlacement(
        library.cards[0], 19, pynvml.byref(library.c_nvmlGpuInstancePlacement_t(2, 1))
    )
    assert [(part.placement.start, part.runtime) for part in await mig.list_parts("GPU-a")] == [(2, None)]


async def test_a_card_that_is_not_divided_has_no_instances(mig, library):
    library.cards[0].mig_mode = 0
    assert await mig.list_parts("GPU-a") == ()


async def test_a_card_is_busy_when_a_program_computes_on_it(mig, library):
    assert not await mig.is_busy("GPU-a")
    library.processes.append(4711)
    assert await mig.is_busy("GPU-a")


async def test_a_card_is_busy_when_a_program_computes_on_an_instance(mig, library):
    await mig.create_part("GPU-a", "1g.5gb", MigPlacement(6, 1))
    library.instances[0].processes.append(4711)
    assert await mig.is_busy("GPU-a")


async def test_only_the_instance_on_which_a_program_computes_is_busy(mig, library):
    parts = [await mig.create_part("GPU-a", "1g.5gb", MigPlacement(start, 1)) for start in (5, 6)]
    library.instances[0].processes.append(4711)
    assert [await mig.is_part_busy("GPU-a", part.gpu_instance_id) for part in parts] == [True, False]
