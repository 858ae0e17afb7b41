import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import structlog

import gpuloom
from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.cli.scheduler_flags import SchedulerFlags, make_settings
from gpuloom.scheduler.settings import SchedulerSettings

HEAVY = ("aiohttp", "grpc", "numpy", "uvloop", "cryptography", "google.protobuf", "structlog", "msgspec")


@pytest.fixture(autouse=True)
def restored_logs() -> Iterator[None]:
    # A command that runs in this process sets up logs for all of it.
    yield
    structlog.reset_defaults()


def run_gpuloom(*tokens: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuloom.cli", *tokens],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", **(env or {})},
    )


@pytest.mark.parametrize("tokens", [["--help"], ["version"], ["--version"]])
def test_light_commands_load_no_servers_and_no_arrays(tokens: list[str]) -> None:
    script = (
        "import json, sys\n"
        "from gpuloom.cli.commands import run\n"
        f"code = run({tokens!r})\n"
        f"print('\\n' + json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(result.stdout.splitlines()[-1]) == [0, []]


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    run(["version"])
    assert capsys.readouterr().out == f"gpuloom {gpuloom.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    text = capsys.readouterr().out
    assert [name for name in ("scheduler", "device-plugin", "demo", "version") if name not in text] == []


def test_an_unknown_command_is_wrong_usage() -> None:
    assert run(["schedule-me"]) is ExitCode.USAGE


def test_an_unknown_flag_is_wrong_usage() -> None:
    assert run(["scheduler", "--http-bing", "x"]) is ExitCode.USAGE


def test_the_scheduler_spells_its_server_flags_with_underscores(capsys: pytest.CaptureFixture[str]) -> None:
    run(["scheduler", "--help"])
    text = capsys.readouterr().out
    assert [flag for flag in ("--http_bind", "--cert_file", "--key_file") if flag not in text] == []


def test_a_certificate_without_its_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", "--cert_file", "a.crt"]) is ExitCode.NO
    assert capsys.readouterr().err.startswith("gpuloom: --cert_file and --key_file belong together")


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "a.crt")
    assert run(["scheduler", "--cert_file", missing, "--key_file", missing]) is ExitCode.NO
    assert missing in capsys.readouterr().err


@pytest.mark.parametrize("command", [["scheduler"], ["device-plugin", "--node-name", "n", "--cards", "two-t4"]])
def test_a_missing_kubeconfig_is_one_line_and_cannot_reach_the_cluster(command: list[str], tmp_path: Path) -> None:
    result = run_gpuloom(*command, "--kubeconfig", str(tmp_path / "none"))
    assert (result.returncode, len(result.stderr.splitlines())) == (ExitCode.UNREACHABLE, 1), result.stderr


def test_an_api_server_that_does_not_answer_is_one_line(tmp_path: Path, unused_tcp_port: int) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{unused_tcp_port}"}}],
                "users": [{"name": "c", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            }
        )
    )
    result = run_gpuloom("scheduler", "--kubeconfig", str(kubeconfig))
    assert (result.returncode, len(result.stderr.splitlines())) == (ExitCode.UNREACHABLE, 1), result.stderr


def test_a_missing_machine_description_is_one_line_that_lists_the_shipped_ones(tmp_path: Path) -> None:
    result = run_gpuloom("device-plugin", "--node-name", "n", "--cards", str(tmp_path / "none.toml"))
    assert (result.returncode, "two-t4" in result.stderr, len(result.stderr.splitlines())) == (1, True, 1)


def test_a_device_plugin_without_a_node_name_is_wrong_usage() -> None:
    assert run(["device-plugin", "--cards", "two-t4"]) is ExitCode.USAGE


def test_a_missing_device_configuration_is_one_line(tmp_path: Path) -> None:
    result = run_gpuloom("device-plugin", "--node-name", "n", "--config-file", str(tmp_path / "none.yaml"))
    assert (result.returncode, "none.yaml: No such file" in result.stderr) == (1, True), result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("flag", ["--force-overwrite-default-scheduler=false", "--node-lock-timeout=1h5m0s"])
def test_flags_are_read_as_the_chart_writes_them(flag: str, tmp_path: Path) -> None:
    result = run_gpuloom("scheduler", flag, "--kubeconfig", str(tmp_path / "none"))
    assert result.returncode == ExitCode.UNREACHABLE, result.stderr


def test_every_setting_of_the_scheduler_has_a_flag_or_comes_from_the_environment() -> None:
    flags = {
        field.name for part in SchedulerFlags.__dataclass_fields__ for field in fields(getattr(SchedulerFlags(), part))
    }
    renamed = {"device_config_file": "profile", "node_lock_timeout": "node_lock_timeout_s"}
    renamed["node_lock_retry_timeout"] = "node_lock_retry_timeout_s"
    made = {renamed.get(name, name) for name in flags} | {"host_name", "node_pass_interval_s"}
    assert made == {field.name for field in fields(SchedulerSettings)}


def test_flags_have_the_defaults_of_the_settings() -> None:
    settings = make_settings(SchedulerFlags(), {"HOSTNAME": "h"})
    assert settings == SchedulerSettings(host_name="h", metrics_bind_address=":9395")


def test_a_broken_device_configuration_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "device-config.yaml"
    file.write_text("nvidia: [")
    result = run_gpuloom("scheduler", "--device-config-file", str(file), "--kubeconfig", str(tmp_path / "none"))
    assert (result.returncode, str(file) in result.stderr) == (1, True), result.stderr


def test_a_port_that_is_none_is_wrong_usage() -> None:
    assert run(["demo", "--port", "70000"]) is ExitCode.USAGE


def test_a_duration_that_is_none_is_wrong_usage() -> None:
    assert run(["scheduler", "--node-lock-timeout", "soon"]) is ExitCode.USAGE
