"""How the init container of the device plugin brings HAMi-core's library to a node."""

import subprocess
from pathlib import Path

import pytest

from gpuloom.node.hostfiles import find_library
from gpuloom.node.settings import NodeSettings

SCRIPT = Path(__file__).parents[3] / "charts/gpuloom/files/place-library.sh"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def place(source, target):
    variables = {"SOURCE": str(source), "TARGET": str(target), "PATH": "/usr/bin:/bin"}
    command = ["sh", "-c", SCRIPT.read_text()]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["libvgpu.so", "libvgpu.so.v2.10.0"])
def test_the_library_is_copied_under_its_name_and_preloaded_under_that_without_version(source, target, name):
    (source / name).write_text("new")
    (source / "ld.so.preload").write_text("/elsewhere/libvgpu.so\n")
    (target / name).write_text("old")
    assert place(source, target).returncode == 0
    preload = f"{target}/libvgpu.so\n"
    assert read(target) == {name: "new", "ld.so.preload": preload, "placed-libraries": f"{name}\n"}


def test_a_program_that_runs_keeps_the_file_that_it_has(source, target):
    (source / "libvgpu.so").write_text("new")
    (target / "libvgpu.so").write_text("old")
    with (target / "libvgpu.so").open() as running:
        place(source, target)
        assert running.read() == "old"


def test_an_older_image_is_used_from_then_on_and_the_newer_library_stays_for_those_who_have_it(source, target):
    """A roll-back."""
    host = NodeSettings(node_name="n1", host_root=target.parent)
    folder = target.parent / "usr/local/vgpu"
    folder.mkdir(parents=True)
    for version in ("v2.9.1", "v2.10.0", "v2.9.1"):
        for path in source.iterdir():
            path.unlink()
        (source / f"libvgpu.so.{version}").write_text(version)
        place(source, folder)
    assert find_library(host) == "/usr/local/vgpu/libvgpu.so.v2.9.1"
    assert (folder / "libvgpu.so.v2.10.0").read_text() == "v2.10.0"


@pytest.mark.parametrize("name", ["libvgpu.so", "libvgpu.so.v2.10.0"])
def test_a_nodes_own_library_serves_where_the_image_has_none(source, target, name):
    (target / name).write_text("own")
    done = place(source, target)
    assert (done.returncode, read(target)) == (0, {name: "own"})
    assert "the node's own" in done.stdout


def test_a_nodes_own_library_is_the_highest_again_after_an_image_that_had_one(source, target):
    (source / "libvgpu.so.v2.9.1").write_text("placed")
    place(source, target)
    (source / "libvgpu.so.v2.9.1").unlink()
    place(source, target)
    assert "placed-libraries" not in read(target)


def test_without_any_library_it_fails_and_says_what_to_set(source, target):
    (source / "other").write_text("x")
    done = place(source, target)
    assert (done.returncode, read(target), len(done.stderr.splitlines())) == (1, {}, 1)
    assert "devicePlugin.library.image" in done.stderr
