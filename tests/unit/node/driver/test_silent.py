"""Questions to NVIDIA's library that hang, and those that divide a card: failing, hanging, answered by nonsense."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest
from unit.node.driver.scenarios import (
    ASIDE,
    DIVIDED,
    DIVIDING,
    EVENTS,
    ONCE,
    READ,
    ROUNDS,
    WATCHED,
    WHOLE,
    Node,
    list_failures,
    list_nonsense,
)

from gpuloom.model.mig import MigPlacement
from gpuloom.node import nvidia
from gpuloom.node.errors import CardReadError
from gpuloom.node.monitor.nvidia import NvidiaCardUse
from gpuloom.node.nvidia import DriverNvml
from harness.slow import first_of
from harness.stubdriver import StubCard, StubInstance, a100


@pytest.fixture
def divided(make_driver):
    instances = [StubInstance(1, 19, 0), StubInstance(2, 19, 1)]
    return make_driver(StubCard("GPU-a"), a100("GPU-b", pci_bus_id="00000000:5E:00.0", instances=instances))


@pytest.mark.parametrize(("function", "error"), list_failures(DIVIDED))
async def test_a_divided_card_that_fails_is_unhealthy_and_the_other_stays(node, divided, function, error):
    await node.look()
    divided.fail(function, error, card=1)
    await node.look(ROUNDS)
    assert {gpu.uuid: gpu.healthy for gpu in await node.nvml.read_gpus()} == {"GPU-a": True, "GPU-b": False}


@pytest.mark.parametrize(("function", "answer"), list_nonsense(DIVIDED))
async def test_a_divided_card_that_tells_nonsense_is_unhealthy_and_the_other_stays(node, divided, function, answer):
    await node.look()
    divided.answer(function, answer, card=1)
    await node.look(ROUNDS)
    assert {gpu.uuid: gpu.healthy for gpu in await node.nvml.read_gpus()} == {"GPU-a": True, "GPU-b": False}


async def divide(mig):
    """Ask for all that is asked to divide a card; errors must be CardReadErrors."""
    for ask in (
        lambda: mig.enable("GPU-b"),
        lambda: mig.read_profiles("GPU-b"),
        lambda: mig.create_part("GPU-b", "3g.20gb", MigPlacement(4, 4)),
        lambda: mig.list_parts("GPU-b"),
        lambda: mig.is_busy("GPU-b"),
        lambda: mig.is_part_busy("GPU-b", 1),
        lambda: mig.destroy_part("GPU-b", 1),
    ):
        with suppress(CardReadError):
            await ask()


@pytest.mark.parametrize(("function", "error"), list_failures(DIVIDING))
async def test_a_failure_to_divide_a_card_takes_no_card_away(node, divided, function, error):
    await node.look()
    divided.fail(function, error, card=1)
    await divide(node.nvml.mig)
    assert {gpu.uuid: gpu.healthy for gpu in await node.nvml.read_gpus()} == {"GPU-a": True, "GPU-b": True}


@pytest.mark.parametrize(("function", "answer"), list_nonsense(DIVIDING))
async def test_nonsense_while_a_card_is_divided_takes_no_card_away(node, divided, function, answer):
    await node.look()
    divided.answer(function, answer, card=1)
    await divide(node.nvml.mig)
    assert {gpu.uuid: gpu.healthy for gpu in await node.nvml.read_gpus()} == {"GPU-a": True, "GPU-b": True}


@pytest.fixture
async def hasty(tmp_path):
    """A driver from which even the division of a card is expected at once."""
    async with DriverNvml(pynvml, sysfs=tmp_path, deadline_s=0.01, wait_ms=1) as nvml:
        yield nvml


@pytest.mark.parametrize("function", first_of(DIVIDING, 2))
async def test_a_division_that_hangs_ends_in_an_error_and_is_possible_later(hasty, divided, function):
    divided.hang(function, card=1)
    await divide(hasty.mig)
    divided.mend()
    async with asyncio.timeout(60):
        while True:
            with suppress(CardReadError):
                if await hasty.mig.read_profiles("GPU-b"):
                    break
            await asyncio.sleep(0)


@pytest.mark.parametrize("function", first_of([*ASIDE, "nvmlShutdown"], 2))
async def test_a_driver_that_hangs_aside_of_health_keeps_nobody_waiting(library, tmp_path, function):
    library.hang(function)
    async with (
        DriverNvml(pynvml, sysfs=tmp_path, deadline_s=0.05) as nvml,
        NvidiaCardUse(pynvml, deadline_s=0.05) as use,
    ):
        for ask in (lambda: nvml.read_interconnect(["GPU-a", "GPU-b"]), nvml.read_version, use.read, use.release):
            with suppress(CardReadError):
                await ask()


def test_every_question_to_the_library_is_in_a_scenario():
    asked = {
        name
        for path in Path(nvidia.__file__).parent.parent.rglob("*.py")
        for name in re.findall(r"\.(nvml[A-Z]\w+)\(", path.read_text())
    }
    known = {*READ, *WATCHED, *ASIDE, *DIVIDED, *DIVIDING, *WHOLE, *EVENTS, *ONCE}
    assert {_strip_version(name) for name in asked} == {_strip_version(name) for name in known}


def _strip_version(name):
    """Return how NVIDIA's library for Python calls a function."""
    return {"nvmlInitWithFlags": "nvmlInit"}.get(name, re.sub(r"(_v\d|V)$", "", name))


@pytest.fixture
async def impatient(tmp_path):
    async with DriverNvml(pynvml, sysfs=tmp_path, deadline_s=0.05, wait_ms=1) as nvml:
        yield Node(nvml)


@pytest.mark.parametrize("function", first_of([*READ, *WATCHED, *WHOLE, *EVENTS, "nvmlInitWithFlags"], 2))
async def test_a_driver_that_hangs_offers_no_card_and_all_come_back(impatient, library, function):
    library.hang(function)
    await impatient.look(ROUNDS)
    assert impatient.offered == set()
    library.mend()
    async with asyncio.timeout(60):
        while impatient.offered != {"GPU-a", "GPU-b"}:
            await impatient.recover()


@pytest.mark.parametrize("function", first_of([*READ, "nvmlDeviceGetCount_v2", "nvmlEventSetWait_v2"], 2))
async def test_a_driver_that_begins_to_hang_is_believed_for_two_rounds_at_most(impatient, library, function):
    async with asyncio.timeout(60):
        while impatient.offered != {"GPU-a", "GPU-b"}:
            await impatient.recover()
    library.hang(function)
    await impatient.look(ROUNDS)
    assert impatient.offered == set()
