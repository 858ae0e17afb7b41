import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import gpuloom
from gpuloom.cli.asking.flags import DepthFlags
from gpuloom.cli.commands import CHANGES, COMMANDS, build_app, run
from gpuloom.cli.examples import EXAMPLES
from gpuloom.cli.outcomes import ExitCode
from gpuloom.cli.scheduler_flags import make_settings
from gpuloom.scheduler.flags import SchedulerFlags
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError

HEAVY = ("aiohttp", "grpc", "numpy", "uvloop", "cryptography", "google.protobuf", "structlog", "msgspec")


def run_gpuloom(*tokens: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuloom.cli", *tokens],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", **(env or {})},
    )


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "unloaded"),
    [
        (["expalin"], ["cyclopts", "gpuloom.kube"]),
        (["top", "--kubeconfig=/none"], ["numpy", "prometheus_client", "gpuloom.scheduler", "gpuloom.engine.state"]),
    ],
)
def test_a_command_loads_no_more_than_it_needs(tokens: list[str], unloaded: list[str]) -> None:
    script = (
        "import sys\n"
        "from gpuloom.cli.commands import run\n"
        f"run({tokens!r})\n"
        f"print([name for name in {unloaded!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.slow
def test_a_command_does_not_look_for_garbage_when_it_ends() -> None:
    script = (
        "import atexit, gc, sys\n"
        "from gpuloom.cli import main\n"
        "sys.argv = ['gpuloom', 'version']\n"
        "atexit.register(lambda: print([len(gc.get_objects()) < gc.get_freeze_count()]))\n"
        "main()"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-1] == "[True]"


@pytest.mark.slow
def test_a_scheduler_without_pages_loads_none() -> None:
    script = (
        "import sys, gpuloom.cli.scheduler; print([name for name in ('gpuloom.web', 'jinja2') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    run(["version"])
    assert capsys.readouterr().out == f"gpuloom {gpuloom.__version__}\n"


def test_version_in_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "-o", "json"]) is ExitCode.YES
    told = json.loads(capsys.readouterr().out)
    assert (told.keys(), told["version"]) == ({"version", "python", "platform"}, gpuloom.__version__)


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
def test_every_help_has_an_example_that_the_command_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(EXAMPLES[name].partition(" > ")[0])
    assert words[:2] == ["gpuloom", name]
    build_app().parse_args(words[1:], exit_on_error=False)
    run([name, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert f"Example: {EXAMPLES[name]} Exit codes: 0 yes" in told
    assert '[default: ""]' not in told
    assert "[default: ()]" not in told


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    text = capsys.readouterr().out
    assert [name for name in ("scheduler", "device-plugin", "demo", "version") if name not in text] == []


def test_an_unknown_command_is_wrong_usage_and_the_nearest_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedulr"]) is ExitCode.USAGE
    assert capsys.readouterr().err == ("gpuloom: there is no command 'schedulr', did you mean scheduler? See --help.\n")
    assert run(["schedule-me-now", "a"]) is ExitCode.USAGE


def test_an_unknown_command_that_is_like_none_is_no_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selector"]) is ExitCode.USAGE
    assert capsys.readouterr().err == "gpuloom: there is no command 'selector'. See --help.\n"


def test_commands_that_change_something_stand_by_themselves() -> None:
    assert [name for name, _, group, _ in COMMANDS if group == CHANGES] == [
        "defrag",
        "cordon",
        "uncordon",
        "drain-card",
    ]


def test_a_word_too_many_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "of", "what"]) is ExitCode.USAGE
    assert capsys.readouterr().err == "gpuloom: version takes no of what. See --help.\n"


def test_an_empty_word_too_many_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pods", ""]) is ExitCode.USAGE
    assert capsys.readouterr().err == "gpuloom: pods takes no ''. See --help.\n"


@pytest.mark.parametrize(
    ("tokens", "what"),
    [
        (["cards", ""], "the name"),
        (["cards", "--node="], "--node"),
        (["nodes", ""], "the name"),
        (["explain", ""], "the name"),
        (["explain", "p", "--from", ""], "--from"),
        (["preempt", "", "--dry-run"], "the name"),
        (["fits", "-f", ""], "-f"),
        (["defrag", "--for", "", "--execute", "--yes"], "--for"),
        (["cordon", ""], "the name"),
        (["uncordon", ""], "the name"),
        (["drain-card", "", "--yes"], "the name"),
        (["replay", ""], "the name"),
    ],
)
def test_an_empty_name_is_refused_and_means_nothing_else(
    tokens: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tokens) is ExitCode.USAGE
    told = "give a name, or leave it out where it is not needed. See --help."
    assert capsys.readouterr().err == f"gpuloom: {what} is empty: {told}\n"


@pytest.mark.parametrize("output", ["name", "wide"])
@pytest.mark.parametrize("tokens", [["explain", "p"], ["fits", "p.yaml"], ["preempt", "p", "--dry-run"]])
def test_forms_of_lists_are_refused_where_the_answer_is_none(
    tokens: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*tokens, "-o", output]) is ExitCode.USAGE
    assert f'Invalid value "{output}" for -o. Choose from: "table", "json", "yaml".' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (["pods", "chat-1"], "pods takes no chat-1; gpuloom explain chat-1 tells of one pod. See --help."),
        (["-n", "default", "pods"], "-n stands before the command: write gpuloom COMMAND -n. See --help."),
    ],
)
def test_wrong_usage_says_what_to_write(tokens: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tokens) is ExitCode.USAGE
    assert capsys.readouterr().err == f"gpuloom: {told}\n"


def test_an_unknown_flag_is_wrong_usage() -> None:
    assert run(["scheduler", "--http-bing", "x"]) is ExitCode.USAGE


def test_the_scheduler_spells_its_server_flags_with_underscores(capsys: pytest.CaptureFixture[str]) -> None:
    run(["scheduler", "--help"])
    text = capsys.readouterr().out
    assert [flag for flag in ("--http_bind", "--cert_file", "--key_file") if flag not in text] == []


def test_of_a_flag_that_is_given_twice_the_last_counts() -> None:
    """What a user adds stands behind what the chart writes."""
    flags = read_flags("--node-scheduler-policy=spread", "--node-scheduler-policy", "binpack")
    assert flags.node_scheduler_policy == "binpack"


def test_all_count_of_a_flag_that_may_be_given_several_times() -> None:
    _, bound, _ = build_app().parse_args(["explain", "p", "--node", "a", "--node=b"])
    (depth,) = [one for one in bound.arguments.values() if isinstance(one, DepthFlags)]
    assert depth.node == ("a", "b")


def test_a_certificate_without_its_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", "--cert_file", "a.crt"]) is ExitCode.USAGE
    assert capsys.readouterr().err.startswith("gpuloom: --cert_file and --key_file belong together")


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "a.crt")
    assert run(["scheduler", "--cert_file", missing, "--key_file", missing]) is ExitCode.USAGE
    assert missing in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", [["scheduler"], ["device-plugin", "--node-name", "n", "--cards", "two-t4"]])
def test_a_missing_kubeconfig_is_one_line_and_cannot_reach_the_cluster(command: list[str], tmp_path: Path) -> None:
    result = run_gpuloom(*command, "--kubeconfig", str(tmp_path / "none"))
    assert (result.returncode, len(result.stderr.splitlines())) == (ExitCode.UNKNOWN, 1), result.stderr


@pytest.mark.slow
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
    assert (result.returncode, len(result.stderr.splitlines())) == (ExitCode.UNKNOWN, 1), result.stderr


@pytest.mark.slow
def test_a_missing_machine_description_is_one_line_that_lists_the_shipped_ones(tmp_path: Path) -> None:
    result = run_gpuloom("device-plugin", "--node-name", "n", "--cards", str(tmp_path / "none.toml"))
    assert (result.returncode, "two-t4" in result.stderr, len(result.stderr.splitlines())) == (2, True, 1)


def test_a_device_plugin_without_a_node_name_is_wrong_usage() -> None:
    assert run(["device-plugin", "--cards", "two-t4"]) is ExitCode.USAGE


@pytest.mark.slow
def test_a_missing_device_configuration_is_one_line(tmp_path: Path) -> None:
    result = run_gpuloom("device-plugin", "--node-name", "n", "--config-file", str(tmp_path / "none.yaml"))
    assert (result.returncode, "none.yaml: No such file" in result.stderr) == (2, True), result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--force-overwrite-default-scheduler=false", "--node-lock-timeout=1h5m0s"])
def test_flags_are_read_as_the_chart_writes_them(flag: str, tmp_path: Path) -> None:
    result = run_gpuloom("scheduler", flag, "--kubeconfig", str(tmp_path / "none"))
    assert result.returncode == ExitCode.UNKNOWN, result.stderr


def test_settings_are_the_flags_and_what_the_environment_adds() -> None:
    added = {field.name for field in fields(SchedulerSettings)} - {field.name for field in fields(SchedulerFlags)}
    assert added == {"host_name", "node_pass_interval_s", "profiles", "workload"}


def test_flags_become_settings_of_the_same_values() -> None:
    flags = SchedulerFlags(scheduler_name="s", kube_qps=5, node_lock_timeout_s=1)
    settings = make_settings(flags, {"HOSTNAME": "h"})
    assert {field.name: getattr(settings, field.name) for field in fields(flags)} == vars(flags)


@pytest.mark.parametrize("leader_elect", [True, False])
def test_a_machine_without_a_name_is_refused(leader_elect: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """scheduler 0.2 start order."""
    monkeypatch.setattr(socket, "gethostname", str)
    flags = SchedulerFlags(
        leader_elect=leader_elect, leader_elect_resource_name="s", leader_elect_resource_namespace="kube-system"
    )
    with pytest.raises(SettingsError, match="empty hostname returned"):
        make_settings(flags, {"HOSTNAME": ""})


def read_flags(*tokens: str) -> SchedulerFlags:
    _, bound, _ = build_app().parse_args(["scheduler", *tokens])
    flags: SchedulerFlags = bound.arguments.get("flags", SchedulerFlags())
    return flags


@pytest.fixture(scope="module")
def defaults() -> SchedulerFlags:
    return read_flags()


DEFAULTS_OF_HAMI = {
    "http_bind": "127.0.0.1:8080",
    "cert_file": "",
    "key_file": "",
    "scheduler_name": "",
    "node_scheduler_policy": "binpack",
    "gpu_scheduler_policy": "spread",
    "metrics_bind_address": ":9395",
    "node_label_selector": "",
    "kube_qps": 0,
    "kube_burst": 0,
    "kube_timeout_s": 0,
    "profiling": False,
    "node_lock_timeout_s": 300,
    "node_lock_retry_timeout_s": 28,
    "force_overwrite_default_scheduler": True,
    "leader_elect": False,
    "leader_elect_resource_name": "",
    "leader_elect_resource_namespace": "",
    "legacy_metrics": False,
    "debug": False,
}


@pytest.mark.parametrize("name", DEFAULTS_OF_HAMI)
def test_flags_that_hami_has_keep_their_defaults(name: str, defaults: SchedulerFlags) -> None:
    assert getattr(defaults, name) == DEFAULTS_OF_HAMI[name]


SWITCHES = {
    "D-01 device-sort": ("numa-first", "score-first"),
    "D-02 privileged-gpu": ("skip", "deny"),
    "D-03 device-score-slots": ("nums", "one"),
    "D-05 no-request-event": (True, False),
    "D-06 failed-node-reason": ("detail", "short"),
    "D-08 exclusive-cores": (True, False),
    "D-12 handshake-cleanup": ("remove", "deleted"),
    "D-16 admission-quota": (True, False),
    "D-18 simulation-reply": ("best", "all"),
    "D-20 strict-quantities": (True, False),
    "D-27 readyz-follower-503": (False, True),
    "D-39 filter-write": ("bind", "inline"),
    "D-40 handshake-probe": ("registered", "all"),
    "D-41 trust-annotations": (False, True),
    "D-42 lock-wait": ("all", "group-only"),
    "D-43 strip-owned-keys": (True, False),
    "D-44 topology-score-sign": ("fixed", "upstream"),
    "D-45 metax-same-card": (True, False),
    "D-46 mlu-default-cores": (False, True),
    "D-47 quota-in-fit": ("all", "hami"),
    "D-48 pod-label": (True, False),
    "D-50 ascend-round-unseen": (True, False),
    "D-51 neuron-core-ids": (True, False),
    "D-52 node-lock": ("auto", "always"),
    "D-53 refused-nodes": ("unresolvable", "failed"),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_have_their_default_and_can_be_set_as_a_chart_writes_them(
    switch: str, defaults: SchedulerFlags
) -> None:
    flag = switch.split()[1]
    field, (default, other) = flag.replace("-", "_"), SWITCHES[switch]
    text = str(other).lower() if isinstance(other, bool) else other
    assert getattr(defaults, field) == default
    assert getattr(read_flags(f"--{flag}={text}"), field) == other


@pytest.mark.parametrize(
    ("tokens", "environment", "seconds"),
    [([], None, 300), ([], "2m", 120), (["--node-lock-timeout=5m"], "2m", 300)],
    ids=["neither", "environment", "both"],
)
def test_the_lock_timeout_is_the_flag_then_the_environment_then_five_minutes(
    tokens: list[str], environment: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-16."""
    if environment:
        monkeypatch.setenv("HAMI_NODELOCK_EXPIRE", environment)
    assert read_flags(*tokens).node_lock_timeout_s == seconds


@pytest.mark.slow
def test_a_broken_device_configuration_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "device-config.yaml"
    file.write_text("nvidia: [")
    result = run_gpuloom("scheduler", "--device-config-file", str(file), "--kubeconfig", str(tmp_path / "none"))
    assert (result.returncode, str(file) in result.stderr) == (1, True), result.stderr


def test_a_port_that_is_none_is_wrong_usage() -> None:
    assert run(["demo", "--port", "70000"]) is ExitCode.USAGE


def test_a_duration_that_is_none_is_wrong_usage() -> None:
    assert run(["scheduler", "--node-lock-timeout", "soon"]) is ExitCode.USAGE


RECORDING = Path(__file__).parents[2] / "recordings/cores.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize(
    "tokens",
    [
        ["version"],
        ["vendors", "--json"],
        ["vendors"],
        ["--help"],
        ["replay", str(RECORDING)],
        ["nodes", "--from", str(RECORDING)],
    ],
)
def test_a_reader_that_goes_away_gets_no_message(tokens: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gpuloom.cli", *tokens]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    messages = [line for line in done.stderr.splitlines() if " tells of " not in line]
    assert (done.returncode, messages) == (128 + signal.SIGPIPE, [])


@pytest.mark.parametrize("tokens", [["version"], ["--help"], ["vendors"]])
def test_an_answer_that_cannot_be_written_is_one_line(tokens: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gpuloom.cli", *tokens]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "gpuloom: No space left on device\n")


@pytest.mark.parametrize("tokens", [["version"], ["cards", "--from", "-"], ["fits", "-f", "-"]])
def test_streams_that_are_closed_are_no_fault(tokens: list[str]) -> None:
    closing = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "gpuloom.cli", *tokens]
    done = subprocess.run(closing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert len(done.stderr.splitlines()) == (tokens != ["version"]), done.stderr


@pytest.mark.parametrize("tokens", [["nodes", "\udcff"], ["pods", "-n", "\udcff"], ["nodes", "-l", "a=\udcff"]])
def test_bytes_that_are_not_utf_8_are_wrong_usage(tokens: list[str], unused_tcp_port: int) -> None:
    done = run_gpuloom(*tokens, "--server", f"http://127.0.0.1:{unused_tcp_port}", env={"GPULOOM_TOKEN": "t"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "\\udcff" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    "url",
    ["http://localhost:1/ü", "http://localhost:1/\udcff", "https://a..b", "https://.com", "http://local\x7fhost:1"],
)
def test_a_url_with_what_none_has_is_wrong_usage(url: str) -> None:
    done = run_gpuloom("nodes", "--server", url, env={"GPULOOM_TOKEN": "t"})
    assert (done.returncode, " is no http or https URL: correct it\n" in done.stderr) == (2, True), done.stderr


def test_ctrl_c_before_the_answer_ends_a_command_without_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuloom.cli.version.print_version", stop)
    assert run(["version"]) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")
