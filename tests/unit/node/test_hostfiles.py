"""Files of the host, below a folder that stands for it."""

from dataclasses import replace

import pytest

from gpuloom.node.errors import NodeError
from gpuloom.node.hostfiles import check_library, find_library, look_up, prepare_directories

PLAIN = "/usr/local/vgpu/libvgpu.so"


@pytest.fixture
def host(settings, tmp_path):
    """Settings whose host has a folder for the limiter, and a way to put files into it."""
    (tmp_path / "usr/local/vgpu").mkdir(parents=True)
    return replace(settings, host_root=tmp_path)


def put(host, *names):
    for name in names:
        (host.host_root / "usr/local/vgpu" / name).touch()


def test_the_plain_library_is_used_where_there_is_no_other(host):
    put(host, "libvgpu.so")
    assert find_library(host) == PLAIN


def test_a_versioned_library_comes_first(host):
    put(host, "libvgpu.so", "libvgpu.so.2.9.1")
    assert find_library(host) == f"{PLAIN}.2.9.1"


def test_of_several_versions_the_highest_counts(host):
    put(host, "libvgpu.so.v2.9.1", "libvgpu.so.v2.10.0", "libvgpu.so.v2.8.12")
    assert find_library(host) == f"{PLAIN}.v2.10.0"


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("v2.10.0-rc.1", "v2.10.0"),
        ("2.10.0-rc.9", "2.10.0-rc.10"),
        ("2.10.0", "2.10.1-rc.1"),
        ("2.10.0", "2.10.0+patch.1"),
        ("2.9", "2.10.0-rc.1"),
    ],
)
def test_a_release_comes_after_its_candidates(host, lower, higher):
    put(host, f"libvgpu.so.{lower}", f"libvgpu.so.{higher}")
    assert find_library(host) == f"{PLAIN}.{higher}"


@pytest.mark.parametrize(
    ("placed", "found"),
    [
        ("libvgpu.so.2.9.1\nvalidator\n", ".2.9.1"),
        ("libvgpu.so\nlibvgpu.so.2.9.1\n", ".2.9.1"),
        ("libvgpu.so\n", ""),
        ("libvgpu.so.2.8.0\n", ".2.10.0"),
        ("", ".2.10.0"),
    ],
)
def test_what_the_chart_placed_last_comes_before_a_higher_version_that_is_left(host, placed, found):
    put(host, "libvgpu.so", "libvgpu.so.2.9.1", "libvgpu.so.2.10.0")
    (host.host_root / "usr/local/vgpu/placed-libraries").write_text(placed)
    assert find_library(host) == f"{PLAIN}{found}"


def test_a_version_of_any_length_is_compared(host):
    put(host, "libvgpu.so.2.9.1", f"libvgpu.so.{'9' * 200}")
    assert find_library(host) == f"{PLAIN}.{'9' * 200}"


@pytest.mark.parametrize(
    "name", ["libvgpu.so.tmp42", "libvgpu.so.2.10.0.bak", "libvgpu.so.2.10.0.new", "libvgpu.so.2~"]
)
def test_a_file_that_is_being_written_or_kept_aside_is_no_library(host, name):
    put(host, "libvgpu.so", name)
    assert find_library(host) == PLAIN


def test_a_versioned_library_is_enough_to_start(host):
    put(host, "libvgpu.so.2.9.1")
    check_library(host)


def test_a_missing_library_is_named(host):
    with pytest.raises(NodeError, match=r"vgpu/libvgpu\.so is missing: install HAMi-core"):
        check_library(host)


def test_a_license_is_found(host):
    put(host, "license")
    assert look_up(host).has_license


def test_only_control_files_that_are_there_are_passed(host):
    (host.host_root / "dev").mkdir()
    (host.host_root / "dev/nvidia-uvm").touch()
    assert look_up(host).control_files == ("/dev/nvidia-uvm",)


@pytest.mark.parametrize(("dev_root", "found"), [("/run/driver", ("/dev/nvidiactl",)), ("/", ())])
def test_device_files_are_looked_for_where_the_driver_is_mounted_unless_they_have_a_place_of_their_own(
    host, tmp_path, dev_root, found
):
    """device plugin 10.3 and 17: the driver's root is another one here than on the host."""
    (tmp_path / "mounted/dev").mkdir(parents=True)
    (tmp_path / "mounted/dev/nvidiactl").touch()
    injection = replace(
        host.injection, driver_root="/run/driver", dev_root=dev_root, driver_root_here=str(tmp_path / "mounted")
    )
    assert look_up(replace(host, injection=injection)).control_files == found


def test_a_containers_directory_is_made_afresh(host):
    prepare_directories(["/cache"], host)
    (host.host_root / "cache/old").touch()
    prepare_directories(["/cache"], host)
    assert [*(host.host_root / "cache").iterdir()] == []
