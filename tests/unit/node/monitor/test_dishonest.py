"""Pods that write what is not true into their regions, or anything else into their directories (trust T-06, T-07)."""

import ctypes
import os
import struct

import pytest
from unit.node.monitor.regions import FORMS, Content, Process, build, make_pod, put, read_word

from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.exporter import render
from gpuloom.node.monitor.families import ScrapeData
from gpuloom.node.monitor.legacymetrics import LEGACY_FAMILIES
from gpuloom.node.monitor.metrics import HAMI_FAMILIES, OWN_FAMILIES
from gpuloom.node.monitor.regionfile import read_region_file
from gpuloom.node.monitor.rounds import Rounds

AT = FORMS["1.2"]
OWN, OTHER = "GPU-own", "GPU-other"
PODS = {
    "honest": make_pod("honest", "neighbour", cards=(OTHER,)),
    "dishonest": make_pod("dishonest", "liar", cards=(OWN,)),
    "beside": make_pod("beside", "shares-a-card", cards=(OWN,)),
}
ALL = (*HAMI_FAMILIES, *OWN_FAMILIES, *LEGACY_FAMILIES)
IN_OPEN, IN_NONBLOCK = 0x20, 0o4000


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "containers"
    path.mkdir()
    return path


@pytest.fixture
def rounds(root):
    return Rounds(root)


async def make(rounds, pods=PODS):
    return await rounds.make(pods, with_feedback=True)


def name_of(uuid: str) -> bytes:
    return uuid.encode()


async def test_a_priority_that_a_pod_gives_itself_blocks_nobody(rounds, root):
    """trust T-06."""
    put(root, "dishonest", "c", Content(priority=0, recent=2))
    beside = put(root, "beside", "c", Content(priority=1, recent=2))
    await make(rounds)
    assert read_word(beside, AT.recent) == 1


async def test_a_card_that_a_pod_was_not_given_is_not_its_own_by_being_named(rounds, root):
    """trust T-06."""
    pods = {**PODS, "dishonest": make_pod("dishonest", "liar", cards=(OWN,), priority=0)}
    put(root, "dishonest", "c", Content(uuids=(name_of(OTHER),), priority=0, recent=2))
    neighbour = put(root, "honest", "c", Content(uuids=(name_of(OTHER),), recent=2))
    await make(rounds, pods)
    assert (read_word(neighbour, AT.recent), read_word(neighbour, AT.switch)) == (1, 0)


async def test_a_pod_does_not_leave_its_card_by_naming_another(rounds, root):
    """trust T-06: whoever must wait cannot get out of it by claiming to compute elsewhere."""
    pods = {**PODS, "beside": make_pod("beside", "better", cards=(OWN,), priority=0)}
    put(root, "beside", "c", Content(uuids=(name_of(OWN),), priority=0, recent=2))
    low = put(root, "dishonest", "c", Content(uuids=(b"GPU-elsewhere",), priority=0, recent=2))
    await make(rounds, pods)
    assert read_word(low, AT.recent) == -1


async def test_a_region_of_no_pod_of_the_node_blocks_nobody(rounds, root):
    """trust T-06."""
    put(root, "stranger", "c", Content(priority=0, recent=2))
    beside = put(root, "beside", "c", Content(priority=1, recent=2))
    found = await make(rounds)
    assert (read_word(beside, AT.recent), found.unknown) == (1, 1)


async def test_nothing_is_written_into_a_region_of_no_pod_of_the_node(rounds, root):
    path = put(root, "stranger", "c", Content(recent=2))
    before = path.read_bytes()
    await make(rounds)
    assert path.read_bytes() == before


async def test_a_huge_count_of_kernels_is_no_activity_for_centuries(rounds, root):
    """trust T-06: one write must not do for ever."""
    pods = {**PODS, "dishonest": make_pod("dishonest", "liar", cards=(OWN,), priority=0)}
    put(root, "dishonest", "c", Content(recent=2**31 - 1))
    beside = put(root, "beside", "c", Content(recent=2))
    for _ in range(3):
        await make(rounds, pods)
    assert read_word(beside, AT.recent) == 0


def series(found) -> set[str]:
    """All series but those about the monitor and the node, as names with labels."""
    text = render(ALL, ScrapeData("n1", 1.0, found)).decode()
    return {line.rpartition(" ")[0] for line in text.splitlines() if 'pod="' in line or 'podname="' in line}


async def test_new_card_ids_make_no_new_series(rounds, root):
    """trust T-07."""
    seen: set[str] = set()
    for number in range(20):
        uuids = tuple(b"GPU-%d-%d" % (number, place) for place in range(16))
        put(root, "dishonest", "c", Content(uuids=uuids))
        seen |= series(await make(rounds))
    assert seen == set()


async def test_an_allocated_card_is_told_once_however_often_it_is_named(rounds, root):
    """trust T-07."""
    put(root, "dishonest", "c", Content(uuids=(name_of(OWN),) * 16))
    told = series(await make(rounds))
    labels = 'container="c",device_uuid="GPU-own",namespace="ns",pod="liar",vdevice_index="0",zone="vGPU"'
    of_memory = {line for line in told if line.startswith("hami_vgpu_memory_used_bytes")}
    assert of_memory == {f"hami_vgpu_memory_used_bytes{{{labels}}}"}


@pytest.mark.slow
async def test_figures_as_label_values_end_after_many_changes(rounds, root):
    """trust T-07: HAMi's older family has byte counts as labels, and each new count is a new series."""
    seen: set[str] = set()
    for number in range(1100):
        used = ((number, number, number, number, number),)
        put(root, "dishonest", "c", Content(uuids=(name_of(OWN),), processes=(Process(used=used),)))
        seen |= {line for line in series(await make(rounds)) if line.startswith("Device_memory_desc")}
    assert len(seen) <= 1000


async def test_a_limit_is_what_was_allocated_whatever_the_region_says(rounds, root):
    put(root, "dishonest", "c", Content(uuids=(name_of(OWN),), limits=(2**64 - 1,)))
    (use,) = (await make(rounds)).containers
    assert [device.limit_bytes for device in use.devices] == [1000 * 2**20]


def test_figures_that_are_too_large_do_not_come_out_small(tmp_path):
    """trust T-06: sums of 64 bits begin again at 0."""
    huge = Process(used=((2**63,) * 5,), sm=(2**63,))
    path = put(tmp_path, "u1", "c", Content(processes=(huge, huge)))
    (device,) = read_region_file(str(path)).region.devices
    assert (device.total_bytes, device.utilization_percent) == (2 * 2**50, 200)


@pytest.fixture
def watch():
    """Tell of a path whether it was opened meanwhile: opening alone does things to devices."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(IN_NONBLOCK)

    def watch(path):
        assert libc.inotify_add_watch(descriptor, os.fsencode(path), IN_OPEN) >= 0

        def was_opened() -> bool:
            try:
                return bool(os.read(descriptor, 4096))
            except BlockingIOError:
                return False

        return was_opened

    yield watch
    os.close(descriptor)


def test_what_is_no_file_is_not_even_opened(tmp_path, watch):
    """trust T-06: a container may make device files, and some devices begin to work when they are opened."""
    path = tmp_path / "x.cache"
    os.mkfifo(path)
    was_opened = watch(path)
    with pytest.raises(RegionError, match="not a regular file"):
        read_region_file(str(path))
    assert not was_opened()


def test_a_file_with_a_second_name_is_refused(tmp_path):
    """trust T-06: it could be a file of somebody else."""
    path = tmp_path / "x.cache"
    path.write_bytes(build("1.2", Content()))
    (tmp_path / "second").hardlink_to(path)
    with pytest.raises(RegionError, match="2 names"):
        read_region_file(str(path))


def test_a_directory_that_is_a_link_is_not_entered(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x.cache").write_bytes(build("1.2", Content()))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RegionError, match="cannot be opened"):
        read_region_file(str(tmp_path / "link/x.cache"))


def test_a_huge_file_with_nothing_in_it_is_read_like_any_other(tmp_path):
    path = tmp_path / "x.cache"
    path.write_bytes(build("1.2", Content()))
    os.truncate(path, 2**40)
    assert read_region_file(str(path)).region.uuids


async def test_a_files_name_is_not_told_because_its_container_chose_it(rounds, root, capsys):
    """Line breaks and bytes that are no text would reach the log."""
    path = put(root, "dishonest", "c", Content())
    path.write_bytes(b"broken")
    path.rename(os.fsdecode(os.fsencode(path.parent) + b"/\xff\nroot: all is well.cache"))
    assert (await make(rounds)).unreadable == 1
    printed = "".join(capsys.readouterr())
    assert "all is well" not in printed
    assert "dishonest_c" in printed


@pytest.mark.parametrize("last", [0, 2**63, 2**64 - 1])
async def test_any_time_of_the_last_kernel_can_be_told(rounds, root, last):
    put(root, "dishonest", "c", Content(uuids=(name_of(OWN),), last=last))
    assert series(await make(rounds))


async def test_a_pod_with_an_annotation_that_cannot_be_read_takes_no_part(rounds, root):
    """What cannot be read closes: such a pod blocks nobody."""
    broken = make_pod("dishonest", "liar", cards=(), priority=0, allocated="GPU-own,NVIDIA,x:;")
    put(root, "dishonest", "c", Content(priority=0, recent=2))
    beside = put(root, "beside", "c", Content(recent=2))
    found = await make(rounds, {**PODS, "dishonest": broken})
    assert (read_word(beside, AT.recent), found.unknown) == (1, 1)


async def test_strangers_are_named_once_and_not_all_of_them(rounds, root, capsys):
    for number in range(150):
        put(root, f"stranger{number}", "c", Content()).write_bytes(struct.pack("<i", 0))
    for _ in range(4):
        await make(rounds)
    lines = [line for line in "".join(capsys.readouterr()).splitlines() if "stranger" in line]
    assert 0 < len(lines) <= 100


async def test_the_leftover_of_a_pod_that_was_known_is_not_reported(rounds, root, capsys):
    put(root, "dishonest", "c", Content(uuids=(name_of(OWN),)))
    await make(rounds)
    for _ in range(3):
        assert (await make(rounds, {})).unknown == 1
    assert "dishonest_c" not in "".join(capsys.readouterr())


async def test_a_directory_for_locks_is_no_container(rounds, root):
    (root / "dishonest_c.locks").mkdir()
    found = await make(rounds)
    assert (found.waiting, found.unknown) == (0, 0)


async def test_a_region_that_is_always_wrong_in_another_way_does_not_fill_the_log(rounds, root, capsys):
    """trust T-06: each round it has another length, or none."""
    path = put(root, "dishonest", "c", Content())
    for number in range(100):
        path.write_bytes(bytes(number % 3 and number % 11))
        await make(rounds)
    lines = [line for line in "".join(capsys.readouterr()).splitlines() if "dishonest_c" in line]
    assert 0 < len(lines) <= 50
