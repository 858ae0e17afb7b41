"""docs/node.md tells of every configuration key and variable of the device plugin, and leads to its flags."""

import re
from pathlib import Path

import msgspec
import pytest

from gpuloom.cli.commands import build_app
from gpuloom.node import configuration, podresources, registration
from gpuloom.node.health import APPLICATION_XIDS, DEFAULT_RECOVERY_S
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import shipped_machines
from gpuloom.wire.device_config import NvidiaConfig
from gpuloom.wire.node_config import NodeConfig

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "node.md").read_text()
FLAGS = (DOCS / "cli.md").read_text().partition("<!-- flags: device-plugin -->")[2].partition("<!-- end -->")[0]
SOURCES = Path(configuration.__file__).parents[1]
SCHEDULERS_KEYS = {
    "resourceMemoryName", "resourceMemoryPercentageName", "resourceCoreName", "resourcePriorityName", "overwriteEnv",
    "defaultMemory", "defaultCores", "defaultGPUNum", "memoryFactor", "gpuCorePolicy", "runtimeClassName",
}  # fmt: skip
"""What section nvidia tells the scheduler and webhook alone."""


def table(header: str) -> list[list[str]]:
    """The rows of the table that begins with this header."""
    lines = PAGE[PAGE.index(header) :].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


CONFIGURATION = table("| Device configuration | Node configuration |")


def test_the_page_tells_of_every_key_of_the_device_configuration():
    told = {key for row in CONFIGURATION for key in words(row[0])} - {"sharing", "nvidia"}
    known = {field.encode_name for field in msgspec.structs.fields(NvidiaConfig)}
    assert told == known - SCHEDULERS_KEYS


def test_the_page_tells_of_every_key_of_the_node_configuration():
    told = {key for row in CONFIGURATION for key in words(row[1])}
    assert told == {field.encode_name for field in msgspec.structs.fields(NodeConfig)} - {"name"}


def test_the_page_tells_the_defaults_of_keys_that_have_a_flag():
    defaults = {flag: default for flag, _, default in flags_of_code()}
    told = {words(row[2])[0]: row[3].strip("`") for row in CONFIGURATION if words(row[2])}
    assert told == {flag: defaults[flag] for flag in told}


def flags_of_code() -> list[tuple[str, tuple[str, ...], str]]:
    """Name, variables and default of every flag."""
    arguments = build_app()["device-plugin"].assemble_argument_collection()
    return [
        (argument.names[0], tuple(argument.parameter.env_var or ()), write_default(argument))
        for argument in arguments
        if argument.parse and not argument.children
    ]


def write_default(argument: object) -> str:
    default = getattr(argument, "field_info").default  # noqa: B009 - the library's arguments have no public type
    if default is None or getattr(argument, "required"):  # noqa: B009
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_page_leads_to_the_table_of_every_flag_with_its_variables_and_default():
    rows = re.findall(r"^\| `(--[\w-]+)` \| (.*?) \| (.*) \|$", FLAGS, re.MULTILINE)
    variables = {flag: tuple(re.findall(r"`(\w+)`", meaning.partition("Also as ")[2])) for flag, _, meaning in rows}
    assert "](cli.md#gpuloom-device-plugin)" in PAGE
    assert variables == {flag: names for flag, names, _ in flags_of_code()}


def test_the_page_tells_every_variable_that_has_no_flag():
    source = (SOURCES / "cli" / "device_plugin_flags.py").read_text()
    told = [words(row[0])[0] for row in table("| Variable | Meaning |")]
    assert sorted(told) == sorted(re.findall(r'environment\.get\("(\w+)"', source))


def test_the_page_tells_which_errors_applications_cause():
    (told,) = re.findall(r"applications cause \(([\d, ]+)\)", PAGE)
    assert {int(number) for number in told.split(",")} == APPLICATION_XIDS


def test_the_page_tells_when_a_sick_card_is_tried():
    assert DEFAULT_RECOVERY_S == 300
    assert "five minutes (`--health-recovery-s`" in PAGE


@pytest.mark.parametrize("name", shipped_machines())
def test_the_page_and_the_help_name_every_shipped_machine(name):
    help_text = (SOURCES / "cli" / "device_plugin.py").read_text()
    assert (f"`{name}`" in PAGE, name in help_text) == (True, True)


@pytest.mark.parametrize("module", [registration, podresources])
def test_the_page_tells_every_event(module):
    reasons = re.findall(r'reason="(\w+)"', Path(module.__file__).read_text())
    assert [reason for reason in reasons if f"`{reason}`" not in PAGE] == []


@pytest.mark.parametrize("path", ["plugin_socket", "pod_resources_socket", "lock_dir", "mig_lock"])
def test_the_page_tells_every_file(path):
    assert str(getattr(NodeSettings("n"), path)) in PAGE
