"""Whose flags, variables and files the doctor of a machine takes."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from unit.doctor.writing import write

from gpuloom.cli import doctor_flags
from gpuloom.cli.device_plugin_flags import ContainerFlags, DevicePluginFlags
from gpuloom.cli.doctor_flags import MachineFlags, adopt_flags
from gpuloom.doctor.machine.processes import find_plugin

CHART = ("--config-file=/device-config/device-config.yaml", "--device-list-strategy=cdi-cri")
VARIABLES = "NODE_NAME=n7\0HOOK_PATH=/opt\0KUBECONFIG=/k\0"
NONE_GIVEN = MachineFlags("", "", DevicePluginFlags())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine whose processes the doctor sees in the place of this one's."""
    for name in ("NODE_NAME", "NodeName", "HOOK_PATH", "DEVICE_LIST_STRATEGY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor_flags, "find_plugin", lambda _: find_plugin(tmp_path))
    return tmp_path


def start(machine: Path, *flags: str, variables: str | None = VARIABLES) -> Path:
    """Let a device plugin run in a container; return its root directory."""
    words = ("/venv/bin/python", "/venv/bin/gpuloom", "device-plugin", *flags)
    write(machine / "proc/9/cmdline", "\0".join(words) + "\0")
    if variables is not None:
        write(machine / "proc/9/environ", variables)
    (machine / "proc/9/root").mkdir()
    return machine / "proc/9/root"


def test_a_plugin_that_is_named_by_a_variable_tells_its_flags(machine: Path) -> None:
    start(machine, *CHART)
    assert adopt_flags(NONE_GIVEN).flags.container.device_list_strategy == "cdi-cri"


def test_a_plugin_that_is_named_by_a_variable_tells_its_name(machine: Path) -> None:
    start(machine, *CHART)
    assert adopt_flags(NONE_GIVEN).node_name == "n7"


def test_the_variables_of_the_plugin_are_flags_too(machine: Path) -> None:
    start(machine)
    assert adopt_flags(NONE_GIVEN).flags.place.hook_path == "/opt"


def test_of_a_plugin_whose_variables_are_closed_the_flags_count_without_a_name(machine: Path) -> None:
    start(machine, *CHART, variables=None)
    told = adopt_flags(NONE_GIVEN)
    assert (told.node_name, told.flags.container.device_list_strategy) == ("", "cdi-cri")


def test_variables_of_the_doctor_do_not_mix_with_those_of_the_plugin(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(machine)
    monkeypatch.setenv("DEVICE_LIST_STRATEGY", "volume-mounts")
    given = replace(NONE_GIVEN, flags=DevicePluginFlags(container=ContainerFlags("volume-mounts")))
    assert adopt_flags(given).flags.container.device_list_strategy == "envvar"


def test_the_doctors_own_environment_stays(machine: Path) -> None:
    start(machine, *CHART)
    before = dict(os.environ)
    adopt_flags(NONE_GIVEN)
    assert dict(os.environ) == before


def test_the_configuration_of_a_plugin_in_a_container_is_read_there(machine: Path) -> None:
    root = start(machine, *CHART)
    write(root / "device-config/..data/device-config.yaml", "nvidia: {}")
    (root / "device-config/device-config.yaml").symlink_to("..data/device-config.yaml")
    config_file = adopt_flags(NONE_GIVEN).flags.place.config_file
    assert config_file is not None
    assert config_file.read_bytes() == b"nvidia: {}"


def test_the_node_configuration_of_a_plugin_in_a_container_is_read_there(machine: Path) -> None:
    write(start(machine) / "config/config.json", "{}")
    assert adopt_flags(NONE_GIVEN).flags.place.node_config_file.read_bytes() == b"{}"


def test_cards_that_a_file_of_the_container_describes_are_read_there(machine: Path) -> None:
    write(start(machine, "--cards=/cards/cards.toml") / "cards/cards.toml", "[[cards]]")
    cards = adopt_flags(NONE_GIVEN).cards
    assert isinstance(cards, Path)
    assert cards.read_bytes() == b"[[cards]]"


def test_shipped_cards_are_in_no_file(machine: Path) -> None:
    start(machine, "--cards=two-t4")
    assert adopt_flags(NONE_GIVEN).cards == "two-t4"


def test_a_configuration_of_a_container_that_leads_to_the_host_is_not_read(machine: Path) -> None:
    root = start(machine, *CHART)
    (root / "device-config").mkdir()
    (root / "device-config/device-config.yaml").symlink_to(write(machine / "secret", "of the host"))
    config_file = adopt_flags(NONE_GIVEN).flags.place.config_file
    assert config_file is not None
    with pytest.raises(FileNotFoundError):
        config_file.read_bytes()


def test_the_host_is_where_the_doctor_sees_it(machine: Path) -> None:
    start(machine, "--host-root=/host")
    assert adopt_flags(NONE_GIVEN).flags.place.host_root == Path("/")


def test_files_of_a_plugin_beside_the_doctor_are_the_doctors(machine: Path) -> None:
    root = start(machine, *CHART)
    root.rmdir()
    root.symlink_to("/")
    place = adopt_flags(NONE_GIVEN).flags.place
    assert place.config_file == Path("/device-config/device-config.yaml")


def test_flags_of_the_command_line_come_first(machine: Path) -> None:
    start(machine, *CHART)
    given = replace(NONE_GIVEN, flags=DevicePluginFlags(container=ContainerFlags("volume-mounts")))
    assert adopt_flags(given) == given


def test_a_plugin_with_flags_that_nobody_knows_is_not_followed(machine: Path) -> None:
    start(machine, "--unheard-of")
    assert adopt_flags(NONE_GIVEN) == NONE_GIVEN
