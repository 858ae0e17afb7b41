"""Directories of pods that are gone, on a disk of the test's own."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from gpuloom.node.monitor import directories
from gpuloom.node.monitor.leftovers import Leftovers
from gpuloom.wire.objects import Pod

NOW_S = time.time()
PODS = {"u1": Pod()}


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "containers"
    path.mkdir()
    return path


@pytest.fixture
def leftovers(root):
    return Leftovers(root, keep_s=300.0)


def put(root: Path, name: str) -> Path:
    """A container's directory with a region in it."""
    path = root / name
    path.mkdir()
    (path / "x.cache").touch()
    return path


def age(path: Path, seconds: float) -> None:
    os.utime(path, (NOW_S - seconds, NOW_S - seconds))


async def test_the_directory_of_a_gone_pod_is_deleted_after_the_interval(leftovers, root):
    path = put(root, "u9_c")
    age(path, 301)
    await leftovers.tidy(PODS, NOW_S)
    assert (path.exists(), leftovers.removed) == (False, 1)


async def test_the_directory_of_an_unknown_pod_is_kept_while_it_is_young(leftovers, root):
    path = put(root, "u9_c")
    age(path, 299)
    await leftovers.tidy(PODS, NOW_S)
    assert path.exists()


async def test_the_directory_of_a_known_pod_is_kept_however_old(leftovers, root):
    path = put(root, "u1_c")
    age(path, 10**6)
    await leftovers.tidy(PODS, NOW_S)
    assert path.exists()


@pytest.mark.parametrize("name", ["lost+found", "_c", "u9_"])
async def test_other_directories_are_left_alone(leftovers, root, name):
    (root / name).mkdir()
    age(root / name, 10**6)
    await leftovers.tidy(PODS, NOW_S)
    assert (root / name).exists()


async def test_a_link_to_a_directory_is_left_alone(leftovers, root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (root / "u9_c").symlink_to(precious)
    await leftovers.tidy(PODS, NOW_S)
    assert (precious / "file").exists()


async def test_links_inside_a_deleted_directory_are_not_followed(leftovers, root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    path = put(root, "u9_c")
    (path / "link").symlink_to(precious)
    age(path, 301)
    await leftovers.tidy(PODS, NOW_S)
    assert (path.exists(), (precious / "file").exists()) == (False, True)


@pytest.fixture
def deep(root):
    """A directory with so many folders in folders that Python's own deletion gives up, pytest's too."""
    path = put(root, "u8_c")
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


@pytest.mark.slow
async def test_folders_in_folders_without_end_go_too(leftovers, root, deep):
    """trust T-12."""
    shallow = put(root, "u9_c")
    age(deep, 301)
    age(shallow, 301)
    await leftovers.tidy(PODS, NOW_S)
    assert (deep.exists(), shallow.exists()) == (False, False)


async def test_a_directory_that_says_to_be_of_the_future_is_deleted_too(leftovers, root):
    """trust T-12: what root in a container can do before its pod goes, to fill the disk for ever."""
    path = put(root, "u9_c")
    age(path, -(10**9))
    # The time of the change is the system's own, and the tests may have begun long ago.
    await leftovers.tidy(PODS, time.time() + 301)
    assert not path.exists()


async def test_a_directory_that_a_wrong_clock_made_is_deleted_after_the_interval_from_now(leftovers, root):
    """A machine may start years ahead, until it hears what time it is."""
    path, right_s = put(root, "u9_c"), NOW_S - 10**8
    for later_s in (0, 299):
        await leftovers.tidy(PODS, right_s + later_s)
    is_kept = path.exists()
    await leftovers.tidy(PODS, right_s + 300)
    assert (is_kept, path.exists()) == (True, False)


async def test_a_clock_that_is_put_back_again_begins_the_interval_anew(leftovers, root):
    path = put(root, "u9_c")
    for now_s in (NOW_S - 10**7, NOW_S - 10**8, NOW_S - 10**8 + 299):
        await leftovers.tidy(PODS, now_s)
    is_kept = path.exists()
    await leftovers.tidy(PODS, NOW_S - 10**8 + 300)
    assert (is_kept, path.exists()) == (True, False)


async def test_the_directory_for_locks_goes_with_its_pod(leftovers, root):
    path, kept = put(root, "u9_c.locks"), put(root, "u1_c.locks")
    age(path, 301)
    age(kept, 301)
    await leftovers.tidy(PODS, NOW_S)
    assert (path.exists(), kept.exists()) == (False, True)


@pytest.mark.parametrize(("later_s", "failures"), [(5, 1), (301, 2), (-1, 2)])
async def test_what_cannot_be_deleted_is_tried_again_minutes_later(leftovers, root, monkeypatch, later_s, failures):
    def refuse(path):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(directories, "remove_tree", refuse)
    age(put(root, "u9_c"), 1000)
    await leftovers.tidy(PODS, NOW_S)
    await leftovers.tidy(PODS, NOW_S + later_s)
    assert leftovers.failures == failures


async def test_a_node_without_the_folder_has_nothing_to_delete(tmp_path):
    leftovers = Leftovers(tmp_path / "none", keep_s=0.0)
    await leftovers.tidy({}, NOW_S)
    assert (leftovers.removed, leftovers.failures) == (0, 0)
