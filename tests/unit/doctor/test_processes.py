"""Which device plugins run, and what ours was told, below a faked /proc."""

from pathlib import Path

import pytest
from unit.doctor.writing import write

from gpuloom.doctor.machine.facts import PluginProcess
from gpuloom.doctor.machine.processes import RunningPlugin, find_plugin, read_plugins

OURS = "/venv/bin/python\0/venv/bin/gpuloom\0device-plugin\0--cards=two-t4\0-x\0"


def find(root: Path) -> RunningPlugin:
    plugin = find_plugin(root)
    assert plugin is not None
    return plugin


@pytest.mark.parametrize("name", ["nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin"])
def test_plugins_are_found_among_processes(tmp_path: Path, name: str) -> None:
    write(tmp_path / "proc/12/cmdline", f"/usr/bin/{name}\0--v=1\0")
    write(tmp_path / "proc/9/cmdline", "/venv/bin/python\0/venv/bin/gpuloom\0device-plugin\0")
    write(tmp_path / "proc/7/cmdline", "gpuloom\0scheduler\0")
    write(tmp_path / "proc/8/cmdline", "")
    assert read_plugins(tmp_path) == (
        PluginProcess(9, "/venv/bin/python /venv/bin/gpuloom device-plugin"),
        PluginProcess(12, f"/usr/bin/{name} --v=1"),
    )


def test_a_machine_without_processes_runs_no_plugin(tmp_path: Path) -> None:
    assert read_plugins(tmp_path) == ()


def test_the_flags_of_the_plugin_that_runs_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/9/cmdline", OURS)
    assert find(tmp_path).flags == ["--cards=two-t4", "-x"]


def test_the_variables_of_the_plugin_that_runs_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/9/cmdline", OURS)
    write(tmp_path / "proc/9/environ", "NODE_NAME=n1\0EMPTY=\0EQUATION=a=b\0")
    assert find(tmp_path).variables == {"NODE_NAME": "n1", "EMPTY": "", "EQUATION": "a=b"}


def test_variables_that_this_account_may_not_read_are_not_none_at_all(tmp_path: Path) -> None:
    write(tmp_path / "proc/9/cmdline", OURS)
    assert find(tmp_path).variables is None


def test_a_plugin_beside_us_shares_our_files(tmp_path: Path) -> None:
    write(tmp_path / "proc/9/cmdline", OURS)
    (tmp_path / "proc/9/root").symlink_to("/")
    assert find(tmp_path).shares_files()


def test_a_plugin_in_a_container_has_files_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "proc/9/cmdline", OURS)
    (tmp_path / "proc/9/root").mkdir()
    assert not find(tmp_path).shares_files()


def test_of_two_plugins_none_is_the_one_that_runs(tmp_path: Path) -> None:
    for pid in (8, 9):
        write(tmp_path / f"proc/{pid}/cmdline", OURS)
    assert find_plugin(tmp_path) is None
