"""Rounds over directories that tests make."""

import asyncio
import os

import pytest
from unit.node.monitor.regions import FORMS, Content, make_pod, put, read_word

from gpuloom.node.monitor.rounds import Rounds

AT = FORMS["1.2"]


PODS = {"u1": make_pod("u1", "high", priority=0), "u2": make_pod("u2", "low", init=("first",))}


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "containers"
    path.mkdir()
    return path


@pytest.fixture
def rounds(tmp_path):
    return Rounds(tmp_path / "containers")


async def make(rounds, *, with_feedback=True):
    return await rounds.make(PODS, with_feedback=with_feedback)


async def test_containers_of_known_pods_are_named(rounds, root):
    put(root, "u1", "c", Content())
    (use,) = (await make(rounds)).containers
    assert (use.namespace, use.pod, use.container) == ("ns", "high", "c")


async def test_init_containers_are_reported_too(rounds, root):
    put(root, "u2", "first", Content())
    assert [use.container for use in (await make(rounds)).containers] == ["first"]


@pytest.mark.parametrize(("uid", "container"), [("u9", "c"), ("u1", "other")])
async def test_what_belongs_to_no_known_container_is_not_reported(rounds, root, uid, container):
    put(root, uid, container, Content())
    assert not (await make(rounds)).containers


async def test_the_worked_example_reaches_the_files(rounds, root):
    high = put(root, "u1", "c", Content(priority=0, recent=2))
    low = put(root, "u2", "c", Content(priority=1, recent=2))
    await make(rounds)
    words = [read_word(path, offset) for path in (high, low) for offset in (AT.recent, AT.switch)]
    assert words == [1, 0, -1, 1]


async def test_nobody_is_blocked_and_limits_count_once_there_is_no_monitor(rounds, root):
    paths = [
        put(root, "u1", "c", Content(priority=0, recent=2)),
        put(root, "u2", "c", Content(priority=1, recent=2)),
    ]
    await make(rounds)
    await rounds.release(PODS)
    assert [read_word(path, offset) for path in paths for offset in (AT.recent, AT.switch)] == [1, 1, 0, 1]


async def test_nothing_is_written_without_feedback(rounds, root):
    path = put(root, "u1", "c", Content(recent=2))
    before = path.read_bytes()
    await make(rounds, with_feedback=False)
    assert path.read_bytes() == before


async def test_a_broken_region_does_not_stop_the_others(rounds, root):
    put(root, "u1", "c", Content()).write_bytes(b"broken")
    put(root, "u2", "c", Content())
    found = await make(rounds)
    assert (found.unreadable, len(found.containers)) == (1, 1)


async def test_a_container_without_a_region_waits(rounds, root):
    (root / "u1_c").mkdir()
    assert (await make(rounds)).waiting == 1


async def test_a_library_beside_the_region_is_fine(rounds, root):
    put(root, "u1", "c", Content()).with_name("libvgpu.so.2.10").touch()
    assert len((await make(rounds)).containers) == 1


@pytest.mark.parametrize("names", [["x.cache"], ["libvgpu.so", "libvgpu.so.2"]])
async def test_more_files_than_one_container_leaves_are_refused(rounds, root, names):
    path = put(root, "u1", "c", Content())
    for name in names:
        path.with_name(name).touch()
    assert (await make(rounds)).unreadable == 1


async def test_a_node_without_the_folder_has_no_containers(tmp_path):
    found = await make(Rounds(tmp_path / "none"))
    assert (found.containers, found.unreadable) == ((), 0)


async def test_a_region_with_a_name_that_is_no_text_is_read(rounds, root):
    path = put(root, "u1", "c", Content())
    path.rename(os.fsdecode(os.fsencode(path.parent) + b"/\xff.cache"))
    assert len((await make(rounds)).containers) == 1


async def test_a_directory_called_like_a_region_is_refused(rounds, root):
    (root / "u1_c" / "x.cache").mkdir(parents=True)
    assert (await make(rounds)).unreadable == 1


async def test_cards_are_told_in_the_order_in_which_the_container_sees_them(rounds, root):
    pods = {"u1": make_pod("u1", cards=("GPU-a", "GPU-b"))}
    put(root, "u1", "c", Content(uuids=(b"GPU-b", b"GPU-a"), limits=(1, 2)))
    (use,) = (await rounds.make(pods, with_feedback=True)).containers
    assert [(device.index, device.uuid) for device in use.devices] == [(0, "GPU-b"), (1, "GPU-a")]


@pytest.mark.parametrize(("priority", "recent"), [(0, -1), (None, 1), (2, 1)])
async def test_a_priority_is_what_the_pod_asks_for(rounds, root, priority, recent):
    """device plugin 16.2: 0 goes before 1, which is the default."""
    pods = {"u1": make_pod("u1", priority=priority), "u2": make_pod("u2")}
    put(root, "u1", "c", Content(priority=7))
    other = put(root, "u2", "c", Content(priority=7))
    await rounds.make(pods, with_feedback=True)
    assert read_word(other, AT.recent) == recent


async def test_the_priorities_resource_may_have_another_name(root):
    rounds = Rounds(root, "example.com/priority")
    put(root, "u1", "c", Content())
    low = put(root, "u2", "c", Content())
    await rounds.make(PODS, with_feedback=True)
    assert read_word(low, AT.recent) == 1


async def test_a_pod_that_has_ended_blocks_nobody_and_has_no_figures(rounds, root):
    pods = {**PODS, "u1": make_pod("u1", priority=0, phase="Succeeded")}
    put(root, "u1", "c", Content())
    low = put(root, "u2", "c", Content())
    found = await rounds.make(pods, with_feedback=True)
    assert (read_word(low, AT.recent), len(found.containers), found.unknown) == (1, 1, 0)


@pytest.mark.parametrize("init", [True, False])
async def test_a_container_that_has_ended_beside_others_has_no_figures(rounds, root, init):
    """A program that was killed leaves in its region what it used."""
    first, second = ("c", "d") if init else ("d", "c")
    pods = {"u1": make_pod("u1", init=[first], containers=[second], ended=["c"])}
    for name in "cd":
        put(root, "u1", name, Content())
    found = await rounds.make(pods, with_feedback=True)
    assert ([use.container for use in found.containers], found.unknown) == (["d"], 0)


async def test_a_container_on_instances_of_cards_takes_no_part(rounds, root):
    """Others made these; HAMi-core does not limit there."""
    put(root, "u1", "c", Content())
    pods = {"u1": make_pod("u1", allocated="MIG-a,NVIDIA,1000,30:GPU-a[1-0],NVIDIA,1000,30:;")}
    assert (await rounds.make(pods, with_feedback=True)).unknown == 1


async def test_a_container_without_a_region_for_a_while_does_not_hold_others_blocked(rounds, root):
    put(root, "u2", "c", Content()).unlink()
    low = put(root, "u1", "c", Content(priority=1, recent=-1))
    await make(rounds)
    assert read_word(low, AT.recent) == 0


@pytest.mark.parametrize("allocated", ["", "GPU-a,NVIDIA,x:;"])
async def test_a_container_of_which_it_is_not_known_any_more_what_it_has_does_not_wait_for_ever(
    rounds, root, allocated
):
    path = put(root, "u1", "c", Content(recent=-1))
    found = await rounds.make({"u1": make_pod("u1", allocated=allocated)}, with_feedback=True)
    assert (read_word(path, AT.recent), found.unknown) == (0, 1)


async def test_others_have_their_turn_after_each_region(rounds, root):
    """A scrape must not wait for all regions: one that is written to all the time takes long to read."""
    pods = {f"u{number}": make_pod(f"u{number}") for number in range(5)}
    for uid in pods:
        put(root, uid, "c", Content())
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await rounds.make(pods, with_feedback=True)
    counting.cancel()
    assert turns >= 5
