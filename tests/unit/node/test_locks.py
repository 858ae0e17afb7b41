"""Locks of HAMi-core: what one container does to those of another (trust T-12)."""

import fcntl
import os
import shutil
import stat
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gpuloom.model.share import Share
from gpuloom.node import hostfiles
from gpuloom.node.hostfiles import prepare_directories
from gpuloom.node.response import HostFacts, build_limiter
from gpuloom.wire.fullpods import FullContainer

as_other_users = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
LIBRARY = "/usr/local/vgpu/libvgpu.so"


@pytest.fixture(params=[False, True], ids=["by container", "node-wide"])
def host(settings, tmp_path, request):
    return replace(settings, host_root=tmp_path, node_wide_locks=request.param)


@pytest.fixture
def alone(settings, tmp_path):
    return replace(settings, host_root=tmp_path)


@pytest.fixture
def shared(settings, tmp_path):
    return replace(settings, host_root=tmp_path, node_wide_locks=True)


def start(host, pod_uid: str) -> Path:
    """Prepare a container and tell which folder of the host it sees as /tmp/vgpulock."""
    cache_dir = f"/usr/local/vgpu/containers/{pod_uid}_c"
    prepare_directories([cache_dir], host)
    share = Share("GPU-a", "NVIDIA", 1000, 10)
    limiter = build_limiter(FullContainer(name="c"), [share], host, HostFacts(LIBRARY), cache=(cache_dir, "id"))
    (source,) = (mount.host_path for mount in limiter.mounts if mount.container_path == "/tmp/vgpulock")
    folder: Path = host.on_this_side(source)
    return folder


def run(folder: Path, uid: int, *command: str) -> bool:
    """Run a command in a folder as it is seen by a container: nothing above it counts."""
    return subprocess.run(command, cwd=folder, user=uid, group=uid, extra_groups=(), check=False).returncode == 0


@as_other_users
def test_a_container_does_not_delete_anothers_lock(host):
    one, other = start(host, "u1"), start(host, "u2")
    assert run(one, 1000, "sh", "-c", "echo > lock")
    run(other, 2000, "rm", "-f", "lock")
    assert (one / "lock").exists()


@as_other_users
@pytest.mark.parametrize("uid", [0, 2000])
def test_a_container_does_not_hold_anothers_lock(alone, uid):
    one, other = start(alone, "u1"), start(alone, "u2")
    with (one / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run(other, uid, "flock", "--nonblock", "lock", "true")


@as_other_users
@pytest.mark.parametrize("uid", [0, 1000, 65534])
def test_a_container_of_any_user_can_lock(host, uid):
    assert run(start(host, "u1"), uid, "flock", "--nonblock", "lock", "true")


def test_the_folder_of_an_older_plugin_gets_the_sticky_bit(shared):
    folder = shared.host_root / "tmp/vgpulock"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    hostfiles.make_lock_directory(shared)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


def test_a_link_in_the_place_of_the_folder_opens_nothing_else(shared, tmp_path):
    """A user of the host may make it in /tmp before the plugin comes."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/vgpulock").symlink_to(precious)
    with suppress(OSError):
        hostfiles.make_lock_directory(shared)
    assert stat.S_IMODE(precious.stat().st_mode) == 0o700


@as_other_users
def test_a_folder_of_another_user_is_refused(shared, tmp_path):
    """Its owner may delete all that is in it, whatever its mode."""
    (tmp_path / "tmp/vgpulock").mkdir(parents=True)
    os.chown(tmp_path / "tmp/vgpulock", 1000, 1000)
    with pytest.raises(OSError, match="of user 1000"):
        hostfiles.make_lock_directory(shared)


def test_other_users_of_the_host_do_not_come_to_containers_directories(alone):
    start(alone, "u1")
    folder = alone.host_root / "usr/local/vgpu/containers"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_folder_of_an_older_plugin_is_closed(alone):
    folder = alone.host_root / "usr/local/vgpu/containers"
    folder.mkdir(parents=True, mode=0o755)
    hostfiles.close_containers_directory(alone)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def age(folder: Path, monkeypatch, *, by_s: float = 61) -> None:
    """Let a minute and more go by."""
    later_s = time.time() + by_s
    monkeypatch.setattr("gpuloom.node.hostfiles.time.time", lambda: later_s)


def test_a_lock_that_nobody_took_back_is_removed_after_a_minute(shared, monkeypatch):
    """With the sticky bit containers of other users cannot, and HAMi-core before 2.8.1 waits for ever."""
    folder = start(shared, "u1")
    (folder / "lock").touch(mode=0o700)
    age(folder, monkeypatch)
    hostfiles.remove_stale_lock(shared)
    assert not (folder / "lock").exists()


def test_a_lock_from_before_a_clock_was_put_right_is_removed(shared, monkeypatch):
    folder = start(shared, "u1")
    (folder / "lock").touch(mode=0o700)
    age(folder, monkeypatch, by_s=-3600)
    hostfiles.remove_stale_lock(shared)
    assert not (folder / "lock").exists()


def test_a_young_lock_stays(shared):
    folder = start(shared, "u1")
    (folder / "lock").touch(mode=0o700)
    hostfiles.remove_stale_lock(shared)
    assert (folder / "lock").exists()


def test_a_lock_in_use_stays(shared, monkeypatch):
    """Newer versions lock the file itself and never remove it."""
    folder = start(shared, "u1")
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        age(folder, monkeypatch)
        hostfiles.remove_stale_lock(shared)
        assert (folder / "lock").exists()


def test_a_link_in_the_place_of_a_lock_goes_and_its_target_stays(shared, monkeypatch, tmp_path):
    folder = start(shared, "u1")
    (tmp_path / "precious").touch()
    (folder / "lock").symlink_to(tmp_path / "precious")
    age(folder, monkeypatch)
    hostfiles.remove_stale_lock(shared)
    assert ((folder / "lock").is_symlink(), (tmp_path / "precious").exists()) == (False, True)


PUT_IN_ORDER = """
import sys, time
from pathlib import Path
from gpuloom.node.hostfiles import make_lock_directory, prepare_directories, remove_stale_lock
from gpuloom.node.settings import NodeSettings

settings = NodeSettings("n1", host_root=Path(sys.argv[1]), node_wide_locks=True)
make_lock_directory(settings)
prepare_directories(["/usr/local/vgpu/containers/u1_c"], settings)
later_s = time.time() + 61
time.time = lambda: later_s
remove_stale_lock(settings)
"""


@as_other_users
@pytest.mark.skipif(not shutil.which("setpriv"), reason="dropping capabilities needs setpriv (util-linux)")
def test_all_of_it_needs_no_capability(shared, tmp_path):
    """The chart gives the plugin none."""
    folder = start(shared, "u1")
    folder.chmod(0o777)
    (folder / "lock").touch(mode=0o700)
    os.chown(folder / "lock", 1000, 1000)
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", PUT_IN_ORDER, str(tmp_path)]
    subprocess.run(command, check=True)
    assert (stat.S_IMODE(folder.stat().st_mode), (folder / "lock").exists()) == (0o1777, False)
