"""Every question to NVIDIA's library that fails, hangs or is answered by nonsense: who is offered, and until when.

The real library for Python runs over a stub of the driver's. Two cards are watched, and the second one, or the driver
as a whole, is at fault: the first one stays, the second one is not offered after two more rounds."""

from contextlib import suppress

import pynvml
import pytest
from unit.node.driver.scenarios import (
    ASIDE,
    EVENTS,
    HUGE,
    OPTIONAL,
    READ,
    ROUNDS,
    UNSUPPORTED,
    WATCHED,
    WHOLE,
    list_failures,
    list_nonsense,
)

from gpuloom.node.errors import CardReadError
from gpuloom.node.monitor.nvidia import NvidiaCardUse


@pytest.mark.parametrize(("function", "error"), list_failures(READ, optional=OPTIONAL))
async def test_a_card_that_begins_to_fail_goes_and_comes_back_and_the_other_stays(node, library, function, error):
    await node.look()
    library.fail(function, error, card=1)
    for _ in range(ROUNDS):
        await node.look()
        assert "GPU-a" in node.offered
    assert node.offered == {"GPU-a"}
    library.mend()
    await node.recover()
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize("function", READ)
async def test_a_card_that_fails_from_the_start_is_not_offered_until_it_answers(node, library, function):
    library.fail(function, pynvml.NVML_ERROR_UNKNOWN, card=1)
    await node.look(ROUNDS)
    assert node.offered == {"GPU-a"}
    library.mend()
    await node.recover()
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "answer"), list_nonsense(READ))
async def test_a_card_that_tells_nonsense_goes_and_comes_back_and_the_other_stays(node, library, function, answer):
    await node.look()
    library.answer(function, answer, card=1)
    for _ in range(ROUNDS):
        await node.look()
        assert "GPU-a" in node.offered
    assert node.offered == {"GPU-a"}
    library.mend()
    await node.recover()
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize("function", sorted(OPTIONAL - {"nvmlDeviceGetMemoryInfo"}))
async def test_what_a_card_need_not_tell_does_not_make_it_sick(node, library, function):
    library.fail(function, UNSUPPORTED, card=1)
    await node.look(ROUNDS)
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "error"), list_failures(WATCHED, optional=["nvmlDeviceRegisterEvents"]))
async def test_a_card_that_cannot_be_watched_is_not_offered_until_it_can(node, library, function, error):
    library.fail(function, error, card=1)
    await node.look(ROUNDS)
    assert node.offered == {"GPU-a"}
    library.mend()
    await node.recover()
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "error"), list_failures(ASIDE))
async def test_what_says_nothing_about_health_takes_no_card_away(node, library, function, error):
    library.fail(function, error, card=1)
    await node.look(ROUNDS)
    await ask_aside(node)
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "answer"), list_nonsense(ASIDE))
async def test_nonsense_that_says_nothing_about_health_takes_no_card_away(node, library, function, answer):
    library.answer(function, answer, card=1)
    await node.look(ROUNDS)
    await ask_aside(node)
    assert node.offered == {"GPU-a", "GPU-b"}


async def ask_aside(node):
    """Ask what other parts of the node ask; no answer may be anything but an answer or a CardReadError."""
    with suppress(CardReadError):
        await node.nvml.read_interconnect(["GPU-a", "GPU-b"])
    with suppress(CardReadError):
        await node.nvml.read_version()
    async with NvidiaCardUse(pynvml) as use:
        reading = await use.read()
    assert "GPU-a" in {card.uuid for card in reading.cards}


@pytest.mark.parametrize(("function", "error"), list_failures(WHOLE))
async def test_a_driver_that_fails_for_a_moment_takes_no_card_away(node, library, function, error):
    await node.look()
    library.fail(function, error)
    await node.look(ROUNDS - 1)
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "error"), list_failures(WHOLE))
async def test_no_card_of_a_driver_that_keeps_failing_is_offered_until_it_answers(node, library, function, error):
    await node.look()
    library.fail(function, error)
    await node.look(ROUNDS)
    assert node.offered == set()
    library.mend()
    await node.look()
    assert node.offered == {"GPU-a", "GPU-b"}


async def test_no_card_of_a_driver_that_keeps_telling_nonsense_is_offered_until_it_makes_sense(node, library):
    await node.look()
    library.answer("nvmlDeviceGetCount_v2", HUGE)
    await node.look(ROUNDS)
    assert node.offered == set()
    library.mend()
    await node.look()
    assert node.offered == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("function", "error"), list_failures(EVENTS))
async def test_cards_whose_errors_nobody_reports_are_not_offered_until_the_driver_does(node, library, function, error):
    library.fail(function, error)
    await node.look(ROUNDS)
    assert node.offered == set()
    library.mend()
    await node.look(2)
    assert node.offered == {"GPU-a", "GPU-b"}


async def test_a_card_that_falls_off_the_bus_takes_no_other_one_away(node, library):
    await node.look()
    library.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_GPU_IS_LOST)
    for function in (*READ, *WATCHED):
        library.fail(function, pynvml.NVML_ERROR_GPU_IS_LOST, card=1)
    await node.look()
    assert node.offered == {"GPU-a"}


def list_watched(library):
    """Return the cards whose errors were asked for, each time that they were."""
    return [call[1] for call in library.calls if call[0] == "registered"]


async def test_the_errors_of_a_card_that_fell_off_the_bus_are_asked_for_when_it_is_back(node, library):
    await node.look()
    library.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_GPU_IS_LOST)
    for function in (*READ, *WATCHED):
        library.fail(function, pynvml.NVML_ERROR_GPU_IS_LOST, card=1)
    await node.look()
    library.mend()
    await node.look(2)
    assert (list_watched(library), node.offered) == (["GPU-a", "GPU-b"] * 2, {"GPU-a", "GPU-b"})


async def test_a_card_that_cannot_be_watched_any_more_after_another_was_lost_is_not_offered(node, library):
    await node.look()
    library.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_GPU_IS_LOST)
    library.fail("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_UNKNOWN, card=1)
    await node.look()
    library.mend()
    library.fail("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_UNKNOWN, card=1)
    await node.look(2)
    assert node.offered == {"GPU-a"}


async def test_the_errors_of_a_card_that_answers_later_than_the_others_are_asked_for(node, library):
    library.fail("nvmlDeviceGetHandleByIndex_v2", pynvml.NVML_ERROR_UNKNOWN, card=1)
    await node.look(2)
    library.mend()
    await node.look(2)
    assert list_watched(library) == ["GPU-a", "GPU-a", "GPU-b"]


async def test_an_event_that_cannot_be_freed_takes_no_card_away(node, library):
    await node.look()
    library.fail("nvmlEventSetFree", pynvml.NVML_ERROR_UNKNOWN)
    await node.nvml.watch_events()
    await node.look(ROUNDS)
    assert node.offered == {"GPU-a", "GPU-b"}
