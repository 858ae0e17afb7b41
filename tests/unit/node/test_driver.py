"""The NVML port over NVIDIA's Python library and a stub of the library below it."""

import asyncio

import pynvml
import pytest

from gpuloom.node.errors import CardReadError, DriverMissingError, DriverSilentError, WatchLostError
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import Ancestor, Coverage, Gpu, NvLink, XidEvent
from harness.stubdriver import StubCard, StubLink

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
REFUSED = pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.fixture
def library(make_stub_driver):
    return make_stub_driver(StubCard("GPU-a"), StubCard("GPU-b", pci_bus_id="00000000:5E:00.0", minor=1))


@pytest.fixture
async def driver(library, tmp_path):
    async with DriverNvml(pynvml, sysfs=tmp_path) as driver:
        yield driver


async def test_a_card_is_what_the_driver_tells(driver):
    assert (await driver.read_gpus())[1] == Gpu(
        uuid="GPU-b", index=1, name="NVIDIA A40", memory_mib=46068, pci_bus_id="00000000:5E:00.0", numa=0, minor=1
    )


@pytest.mark.parametrize(("text", "numa"), [("1\n", 1), ("-1\n", 0), ("", 0)])
async def test_the_numa_node_is_that_of_sysfs(driver, tmp_path, text, numa):
    folder = tmp_path / "bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    assert [gpu.numa for gpu in await driver.read_gpus()] == [numa, 0]


async def test_a_card_with_unified_memory_has_none_to_tell(driver, library):
    library.fail("nvmlDeviceGetMemoryInfo", REFUSED, card=0)
    assert [gpu.memory_mib for gpu in await driver.read_gpus()] == [None, 46068]


async def test_a_card_without_a_device_file_has_no_minor(driver, library):
    library.fail("nvmlDeviceGetMinorNumber", REFUSED, card=0)
    assert (await driver.read_gpus())[0].minor is None


async def test_the_library_is_initialised_once(driver, library):
    await driver.read_gpus()
    await driver.read_gpus()
    assert library.count("nvmlInitWithFlags") == 1


async def test_a_machine_without_a_driver_is_told_apart(driver, library):
    library.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(DriverMissingError, match="install or load it"):
        await driver.read_gpus()


async def test_a_driver_that_appears_is_used(driver, library):
    library.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(DriverMissingError):
        await driver.read_gpus()
    library.mend()
    assert len(await driver.read_gpus()) == 2


async def test_a_driver_that_was_loaded_anew_is_initialised_anew(driver, library):
    await driver.read_gpus()
    library.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNINITIALIZED)
    with pytest.raises(CardReadError):
        await driver.read_gpus()
    library.mend()
    await driver.read_gpus()
    assert library.count("nvmlInitWithFlags") == 2


async def test_a_driver_that_fails_is_an_error_to_try_again(driver, library):
    library.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(CardReadError, match="cannot read its cards: Unknown Error"):
        await driver.read_gpus()


async def test_a_card_that_never_answered_does_not_hide_the_others(driver, library):
    library.fail("nvmlDeviceGetHandleByIndex_v2", LOST, card=0)
    assert [gpu.uuid for gpu in await driver.read_gpus()] == ["GPU-b"]


async def test_a_machine_on_which_no_card_ever_answered_is_an_error_to_try_again(driver, library):
    for card in (0, 1):
        library.fail("nvmlDeviceGetHandleByIndex_v2", LOST, card=card)
    with pytest.raises(CardReadError):
        await driver.read_gpus()


async def test_two_cards_with_one_uuid_are_the_one_that_was_there_and_one_that_is_missing(driver, library):
    await driver.read_gpus()
    library.answer("nvmlDeviceGetUUID", "GPU-b", card=0)
    assert [(gpu.uuid, gpu.index, gpu.healthy) for gpu in await driver.read_gpus()] == [
        ("GPU-a", 0, False),
        ("GPU-b", 1, True),
    ]


async def test_a_card_that_is_lost_stays_in_the_list_as_unhealthy(driver, library):
    await driver.read_gpus()
    library.fail("nvmlDeviceGetHandleByIndex_v2", LOST, card=0)
    assert [(gpu.uuid, gpu.healthy) for gpu in await driver.read_gpus()] == [("GPU-a", False), ("GPU-b", True)]


async def test_a_card_that_the_driver_does_not_count_any_more_stays_as_unhealthy(driver, library):
    await driver.read_gpus()
    del library.cards[1]
    library.write()
    assert [(gpu.uuid, gpu.healthy) for gpu in await driver.read_gpus()] == [("GPU-a", True), ("GPU-b", False)]


async def test_a_lost_card_stays_itself_when_the_driver_counts_the_others_anew(driver, library):
    await driver.read_gpus()
    del library.cards[0]
    library.write()
    assert {(gpu.uuid, gpu.healthy) for gpu in await driver.read_gpus()} == {("GPU-a", False), ("GPU-b", True)}


async def test_a_card_that_fails_under_the_index_of_another_is_the_one_that_is_missing(driver, library):
    await driver.read_gpus()
    library.cards.reverse()
    library.write()
    library.fail("nvmlDeviceGetHandleByIndex_v2", LOST, card=1)
    assert {(gpu.uuid, gpu.healthy) for gpu in await driver.read_gpus()} == {("GPU-a", False), ("GPU-b", True)}


async def test_a_card_that_changes_its_index_is_listed_once_with_the_new_one(driver, library):
    await driver.read_gpus()
    library.cards.reverse()
    library.write()
    assert [(gpu.uuid, gpu.index) for gpu in await driver.read_gpus()] == [("GPU-b", 0), ("GPU-a", 1)]


async def test_a_card_that_comes_back_is_healthy(driver, library):
    await driver.read_gpus()
    library.fail("nvmlDeviceGetName", LOST, card=0)
    await driver.read_gpus()
    library.mend()
    assert [gpu.healthy for gpu in await driver.read_gpus()] == [True, True]


async def test_a_card_in_whose_slot_another_answers_was_exchanged_and_is_gone(driver, library):
    await driver.read_gpus()
    library.cards[1] = StubCard("GPU-c", pci_bus_id="00000000:5E:00.0", minor=1)
    library.write()
    assert [(gpu.uuid, gpu.index, gpu.healthy) for gpu in await driver.read_gpus()] == [
        ("GPU-a", 0, True),
        ("GPU-c", 1, True),
    ]


async def test_a_card_that_the_driver_does_not_count_any_more_is_gone_after_a_reload(driver, library):
    await driver.read_gpus()
    del library.cards[1]
    library.write()
    driver.forget_absent()
    assert [gpu.uuid for gpu in await driver.read_gpus()] == ["GPU-a"]


async def test_a_card_that_does_not_answer_during_a_reload_stays_as_unhealthy(driver, library):
    await driver.read_gpus()
    library.fail("nvmlDeviceGetHandleByIndex_v2", LOST, card=1)
    driver.forget_absent()
    assert [(gpu.uuid, gpu.healthy) for gpu in await driver.read_gpus()] == [("GPU-a", True), ("GPU-b", False)]


async def test_a_probe_asks_for_name_and_memory(driver, library):
    library.fail("nvmlDeviceGetMemoryInfo", LOST, card=1)
    await driver.probe("GPU-a")
    with pytest.raises(CardReadError, match="cannot read card GPU-b"):
        await driver.probe("GPU-b")


async def test_events_are_asked_for_as_far_as_the_card_has_them(driver, library):
    library.cards[1].event_types = 8
    library.write()
    await driver.watch_events()
    assert [call[1:] for call in library.calls if call[0] == "registered"] == [["GPU-a", "11"], ["GPU-b", "8"]]


@pytest.mark.parametrize(
    ("function", "error", "coverage"),
    [
        ("nvmlDeviceGetHandleByUUID", LOST, Coverage.FAILED),
        ("nvmlDeviceGetSupportedEventTypes", REFUSED, Coverage.FAILED),
        ("nvmlDeviceRegisterEvents", REFUSED, Coverage.UNSUPPORTED),
        ("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_UNKNOWN, Coverage.FAILED),
    ],
)
async def test_a_card_that_cannot_be_watched_is_told(driver, library, function, error, coverage):
    library.fail(function, error, card=0)
    assert await driver.watch_events() == {"GPU-a": coverage, "GPU-b": Coverage.WATCHED}


async def test_watching_anew_gives_the_old_events_back(driver, library):
    await driver.watch_events()
    await driver.watch_events()
    assert library.count("nvmlEventSetFree") == 1


@pytest.mark.parametrize(
    ("kind", "event"), [(8, XidEvent("GPU-a", 79)), (2, None), (1, None)], ids=["xid", "double bit", "single bit"]
)
async def test_only_a_critical_error_is_an_event(driver, library, kind, event):
    await driver.watch_events()
    library.emit("GPU-a", 79, type=kind)
    assert await driver.wait_for_event() == event


@pytest.mark.parametrize(("ids", "instance"), [((2, 0), (2, 0)), ((2, 0xFFFFFFFF), None), ((0xFFFFFFFF, 0), None)])
async def test_an_event_names_its_instance_by_both_ids(driver, library, ids, instance):
    await driver.watch_events()
    library.emit("GPU-a", 79, gpu_instance=ids[0], compute_instance=ids[1])
    assert await driver.wait_for_event() == XidEvent("GPU-a", 79, instance)


async def test_a_wait_without_an_event_is_no_event(driver):
    await driver.watch_events()
    assert await driver.wait_for_event() is None


async def test_an_error_that_comes_after_its_waiter_was_cancelled_is_for_the_next_one(driver, library):
    """The plugin starts again for a new kubelet, and the thread waits on meanwhile."""
    await driver.watch_events()
    library.hang("nvmlEventSetWait_v2")
    waiting = asyncio.create_task(driver.wait_for_event())
    async with asyncio.timeout(60):
        while not library.count("nvmlEventSetWait_v2"):  # noqa: ASYNC110 - a library announces nothing
            await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    library.emit("GPU-a", 79)
    library.mend()
    assert await driver.wait_for_event() == XidEvent("GPU-a", 79)
    assert await driver.wait_for_event() is None


async def test_an_event_of_a_card_that_cannot_be_told_has_none(driver, library):
    await driver.watch_events()
    library.emit("GPU-c", 79)
    assert await driver.wait_for_event() == XidEvent(None, 79)


async def test_an_event_of_a_card_that_is_lost_by_now_is_told_from_the_others(driver, library):
    await driver.watch_events()
    library.fail("nvmlDeviceGetUUID", LOST, card=0)
    library.emit("GPU-a", 79)
    assert await driver.wait_for_event() == XidEvent("GPU-a", 79)


async def test_a_wait_that_a_lost_card_ends_asks_to_begin_anew(driver, library):
    await driver.watch_events()
    library.fail("nvmlEventSetWait_v2", LOST)
    with pytest.raises(WatchLostError):
        await driver.wait_for_event()


async def test_waits_that_a_lost_card_keeps_ending_are_an_error(driver, library):
    await driver.watch_events()
    library.fail("nvmlEventSetWait_v2", LOST)
    with pytest.raises(WatchLostError):
        await driver.wait_for_event()
    await driver.watch_events()
    with pytest.raises(CardReadError, match="cannot wait for errors"):
        await driver.wait_for_event()


async def test_a_card_that_cannot_report_critical_errors_is_told(driver, library):
    library.answer("nvmlDeviceGetSupportedEventTypes", 3, card=0)
    assert (await driver.watch_events())["GPU-a"] is Coverage.UNSUPPORTED


async def test_a_wait_that_fails_is_an_error(driver, library):
    await driver.watch_events()
    library.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(CardReadError, match="cannot wait for errors"):
        await driver.wait_for_event()


@pytest.fixture
def linked(library):
    one, other = library.cards
    one.ancestors[other.uuid] = other.ancestors[one.uuid] = 30
    one.links = [StubLink(other.pci_bus_id), StubLink("", state=0), StubLink("00000000:C0:00.0", 2)]
    library.write()


async def test_ancestors_and_enabled_links_are_read(driver, linked):
    found = await driver.read_interconnect(["GPU-a", "GPU-b"])
    assert found.ancestors == {("GPU-a", "GPU-b"): Ancestor.HOSTBRIDGE, ("GPU-b", "GPU-a"): Ancestor.HOSTBRIDGE}
    assert found.links == {
        "GPU-a": (NvLink("00000000:5E:00.0"), NvLink("00000000:C0:00.0", to_switch=True)),
        "GPU-b": (),
    }


async def test_a_card_without_links_has_none(driver, library, linked):
    library.fail("nvmlDeviceGetNvLinkState", REFUSED, card=0)
    assert (await driver.read_interconnect(["GPU-a", "GPU-b"])).links["GPU-a"] == ()


async def test_a_link_that_cannot_be_read_fails_the_whole_answer(driver, library, linked):
    library.fail("nvmlDeviceGetNvLinkState", LOST, card=0)
    with pytest.raises(CardReadError, match="cannot tell how cards are connected"):
        await driver.read_interconnect(["GPU-a", "GPU-b"])


async def test_a_driver_too_old_to_tell_switches_has_links_to_cards_alone(driver, library, linked):
    library.fail("nvmlDeviceGetNvLinkRemoteDeviceType", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, card=0)
    links = (await driver.read_interconnect(["GPU-a", "GPU-b"])).links["GPU-a"]
    assert [link.to_switch for link in links] == [False, False]


async def test_an_unknown_level_is_an_error(driver, library, linked):
    library.cards[0].ancestors["GPU-b"] = 70
    library.write()
    with pytest.raises(CardReadError, match="topology level 70"):
        await driver.read_interconnect(["GPU-a", "GPU-b"])


@pytest.fixture
async def hanging(library, tmp_path):
    library.hang("nvmlDeviceGetCount_v2")
    async with DriverNvml(pynvml, sysfs=tmp_path, deadline_s=0.05) as driver:
        yield driver


async def test_a_driver_that_hangs_is_given_up(hanging):
    with pytest.raises(DriverSilentError, match=r"did not answer within 0\.05 s \(read its cards\)"):
        await hanging.read_gpus()


async def test_a_driver_that_still_hangs_is_not_asked_again(hanging):
    with pytest.raises(DriverSilentError):
        await hanging.read_gpus()
    with pytest.raises(DriverSilentError, match="still hangs in an earlier call"):
        await hanging.probe("GPU-a")


async def test_a_driver_that_woke_up_is_asked_again(hanging, library):
    with pytest.raises(DriverSilentError):
        await hanging.read_gpus()
    library.mend()
    async with asyncio.timeout(60):
        while True:
            try:
                gpus = await hanging.read_gpus()
            except DriverSilentError:
                await asyncio.sleep(0)
            else:
                break
    assert len(gpus) == 2
