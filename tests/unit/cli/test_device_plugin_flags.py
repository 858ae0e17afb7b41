"""From the command line and the environment to settings."""

import math
import shutil
from pathlib import Path

import pytest
from cyclopts import App

from gpuloom.cli.device_plugin_flags import (
    CardFlags,
    ContainerFlags,
    DevicePluginFlags,
    PlaceFlags,
    PodFlags,
    make_settings,
)
from gpuloom.node.errors import ConfigurationError
from gpuloom.node.settings import NodeSettings

ACME = Path(__file__).parents[3] / "docs/examples/acme.toml"
_NO_SECONDS = (-1.0, math.nan, math.inf)


def read(*tokens, **environment):
    """Settings as the command makes them of these tokens and variables without a flag."""
    app = App()
    found = []

    @app.default
    def take(flags: DevicePluginFlags = DevicePluginFlags()) -> None:  # noqa: B008 - frozen
        found.append(make_settings("n1", flags, environment))

    app(list(tokens), exit_on_error=False, result_action="return_value")
    return found[0]


def test_without_flags_the_settings_are_the_defaults():
    assert read() == NodeSettings(node_name="n1")


@pytest.mark.parametrize(
    ("token", "name", "expected"),
    [
        ("--disable-core-limit=true", "disable_core_limit", True),
        ("--disable-core-limit=false", "disable_core_limit", False),
        ("--fail-on-init-error=false", "fail_on_init_error", False),
        ("--device-split-count=5", "device_split_count", 5),
        ("--device-memory-scaling=1.5", "device_memory_scaling", 1.5),
        ("--device-cores-scaling=2", "device_core_scaling", 2.0),
        ("--resource-name=acme.com/gpu", "resource_name", "acme.com/gpu"),
        ("--limit-order=index", "limit_order", "index"),
        ("--report-handshake", "report_handshake", True),
        ("--mig-strategy=mixed", "mig_strategy", "mixed"),
    ],
)
def test_flags_are_read_as_the_chart_writes_them(token, name, expected):
    assert getattr(read(token), name) == expected


@pytest.mark.parametrize(
    ("token", "name", "expected"),
    [
        ("--device-list-strategy=cdi-cri,envvar", "list_strategies", ("envvar", "cdi-cri")),
        ("--device-id-strategy=index", "id_strategy", "index"),
        ("--pass-device-specs=true", "device_specs", True),
        ("--nvidia-driver-root=/run/nvidia", "dev_root", "/run/nvidia"),
        ("--dev-root=/d", "dev_root", "/d"),
        ("--driver-root-ctr-path=/drv", "driver_root_here", "/drv"),
        ("--gds-enabled", "driver_parts", ("gds",)),
        ("--imex-channel-ids=0,3", "imex_channels", (0, 3)),
        ("--nvidia-cdi-hook-path=/h", "cdi_hook_path", "/h"),
    ],
)
def test_flags_say_how_containers_see_their_cards(token, name, expected):
    assert getattr(read(token).injection, name) == expected


def test_the_environment_stands_in_for_flags(monkeypatch):
    monkeypatch.setenv("NVIDIA_CTK_PATH", "/old")
    assert read().injection.cdi_hook_path == "/old"


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", False), ("True", False)])
def test_only_the_word_true_enables_topology_scores(value, expected):
    assert read(ENABLE_TOPOLOGY_SCORE=value).report_topology is expected


def test_health_checks_are_read_from_the_environment():
    health = read("--health-recovery-s=7", DP_DISABLE_HEALTHCHECKS="all", DP_ENABLE_HEALTHCHECKS="48").health
    assert (health.is_fatal(48), health.is_fatal(79), health.recovery_s) == (True, False, 7)


def test_an_xid_of_more_digits_than_any_has_is_left_out():
    assert read(DP_ENABLE_HEALTHCHECKS=f"48,{'9' * 5000}").health.counted == {48}


def test_the_lists_of_own_vendors_that_share_the_node_lock_are_read(tmp_path):
    shutil.copy(ACME, tmp_path)
    text = ACME.read_text().replace("acme.example", "corp.example").replace('"Acme"', '"Corp"')
    (tmp_path / "corp.toml").write_text(f'{text}\n[lock]\nkey = "hami.io/mutex.lock"\n')
    assert read(f"--vendor-dir={tmp_path}").own_lists == {"corp.example/to-allocate"}


@pytest.mark.parametrize("text", ["word = 5", None])
def test_own_vendors_that_cannot_be_read_name_the_flag_or_the_file(tmp_path, text):
    if text is not None:
        (tmp_path / "corp.toml").write_text(text)
    folder = tmp_path if text else tmp_path / "absent"
    with pytest.raises(ConfigurationError, match="corp.toml" if text else "--vendor-dir"):
        read(f"--vendor-dir={folder}")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (DevicePluginFlags(container=ContainerFlags(device_list_strategy="magic")), "--device-list-strategy 'magic'"),
        (DevicePluginFlags(container=ContainerFlags(device_list_strategy="")), "--device-list-strategy ''"),
        (DevicePluginFlags(container=ContainerFlags(imex_channel_ids="a")), "--imex-channel-ids 'a'"),
        (DevicePluginFlags(container=ContainerFlags(imex_channel_ids="9" * 5000)), "--imex-channel-ids '999"),
        *((DevicePluginFlags(card=CardFlags(health_recovery_s=each)), "--health-recovery-s") for each in _NO_SECONDS),
        (DevicePluginFlags(place=PlaceFlags(kubelet_socket=PlaceFlags().host_root / "k.sock")), "called kubelet.sock"),
    ],
)
def test_a_value_that_cannot_be_names_its_flag(flags, text):
    with pytest.raises(ConfigurationError, match=text):
        make_settings("n1", flags, {})


def test_flags_are_the_defaults_of_the_settings():
    flags = DevicePluginFlags(card=CardFlags(), pod=PodFlags())
    assert make_settings("n1", flags, {}) == NodeSettings(node_name="n1")
