"""Whatever a container leaves in its directory does to others what its priority and its cards allow (trust T-06)."""

import os
import random
import stat
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.node.monitor.regions import FORMS, Content, build, make_pod, put, read_word

from gpuloom.node.monitor.exporter import render
from gpuloom.node.monitor.families import ScrapeData
from gpuloom.node.monitor.legacymetrics import LEGACY_FAMILIES
from gpuloom.node.monitor.metrics import HAMI_FAMILIES
from gpuloom.node.monitor.rounds import Rounds

A, B, C = "GPU-a", "GPU-b", "GPU-c"
FAMILIES = (*HAMI_FAMILIES, *LEGACY_FAMILIES)
AT = FORMS["1.2"]
NEIGHBOURS = {
    "better": make_pod("better", "better", cards=(A,), priority=0),
    "equal": make_pod("equal", "equal", cards=(A, B), priority=1),
    "worse": make_pod("worse", "worse", cards=(B, C), priority=2),
    "apart": make_pod("apart", "apart", cards=(C,), priority=5),
}

patches = st.lists(st.tuples(st.integers(0, 2_009_100), st.binary(min_size=1, max_size=64)), max_size=8)
words = st.sampled_from([0, 1, 2, 3, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
claims = st.lists(st.sampled_from([A, B, C, "GPU-new", "", "GPU-\x00x"]).map(str.encode), max_size=16)


@st.composite
def told(draw) -> bytes:
    """A region's file that says anything at all."""
    form = draw(st.sampled_from(sorted(FORMS)))
    if draw(st.booleans()):
        content = Content(uuids=draw(claims), recent=draw(words), priority=draw(words), switch=draw(words))
        content.slot_count, content.device_count = draw(words), draw(st.integers(0, 2**64 - 1))
        data = build(form, content)
    else:
        data = bytearray(random.Random(draw(st.integers(0, 2**32))).randbytes(FORMS[form].size + 1))
        struct.pack_into("<iII", data, 0, 19920718, FORMS[form].major, FORMS[form].minor)
    for offset, patch in draw(patches):
        place = offset % (len(data) - len(patch))
        data[place : place + len(patch)] = patch
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


def leave_link(directory: Path) -> None:
    (directory / "x.cache").symlink_to(directory.parent / "better_c/d8e4.cache")


def leave_second_name(directory: Path) -> None:
    """Of a file of its own: the kernel makes no second name across mounts, and a directory is mounted by itself."""
    writing(bytes(build("1.2", Content(recent=2))))(directory)
    (directory / "second").hardlink_to(directory / "x.cache")


def leave_device(directory: Path) -> None:
    if os.geteuid() == 0:
        os.mknod(directory / "x.cache", 0o600 | stat.S_IFBLK)


things = st.sampled_from(
    [
        leave_link,
        leave_second_name,
        lambda directory: os.mkfifo(directory / "x.cache"),
        lambda directory: (directory / "x.cache").mkdir(),
        leave_device,
    ]
)


async def play(leave, cards, priority) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """One round beside a container that `leave` fills the directory of: neighbours' signals, and all series."""
    pods = {**NEIGHBOURS, "any": make_pod("any", "any", cards=cards, priority=priority)}
    with TemporaryDirectory() as folder:
        root = Path(folder)
        files = {
            uid: put(root, uid, "c", Content(uuids=(b"GPU-a",), recent=1 if uid == "worse" else 2))
            for uid in NEIGHBOURS
        }
        directory = root / "any_c"
        directory.mkdir()
        leave(directory)
        found = await Rounds(root).make(pods, with_feedback=True)
        signals = {uid: (read_word(path, AT.recent), read_word(path, AT.switch)) for uid, path in files.items()}
        assert all(path.stat().st_size == AT.size + 1 for path in files.values())
    text = render(FAMILIES, ScrapeData("n1", 1.0, found)).decode()
    lines = (line.rpartition(" ")[0] for line in text.splitlines() if "any" in line)
    return signals, {line for line in lines if "Device_memory_desc" not in line}


def writing(data: bytes):
    return lambda directory: (directory / "x.cache").write_bytes(data)


PLAYED: dict[tuple[object, ...], object] = {}


async def expect(recent: int, cards, priority) -> object:
    """What a container does that is honest about being idle or active; each is played once."""
    case = recent, tuple(cards), priority
    if case not in PLAYED:
        PLAYED[case], _ = await play(writing(bytes(build("1.2", Content(recent=recent)))), cards, priority)
    return PLAYED[case]


async def check(leave, cards, priority) -> None:
    signals, series = await play(leave, cards, priority)
    assert signals in (await expect(0, cards, priority), await expect(2, cards, priority))
    allowed = tuple(f'device_uuid="{card}"' for card in cards) + tuple(f'deviceuuid="{card}"' for card in cards)
    assert all(any(label in line for label in allowed) for line in series)
    by_family = [line.partition("{")[0] for line in series]
    assert all(by_family.count(name) <= len(set(cards)) for name in by_family)


cards_of_any = st.lists(st.sampled_from([A, B, C]), unique=True, max_size=3)
priorities = st.sampled_from([None, 0, 1, 2, 9])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=told(), cards=cards_of_any, priority=priorities)
async def test_any_bytes_do_to_neighbours_what_an_idle_or_an_active_container_does(data, cards, priority):
    await check(writing(data), cards, priority)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(leave=things, cards=cards_of_any, priority=priorities)
async def test_any_thing_in_its_place_does_to_neighbours_what_an_idle_container_does(leave, cards, priority):
    signals, series = await play(leave, cards, priority)
    assert (signals, series) == (await expect(0, cards, priority), set())
