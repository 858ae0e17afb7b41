"""How ``gpuloom doctor`` ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from unit.doctor.writing import write

from gpuloom.cli import doctor_flags
from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.doctor.machine.processes import find_plugin


@pytest.fixture(autouse=True)
def restored_logs() -> Iterator[None]:
    # A command that runs in this process sets up logs for all of it.
    yield
    structlog.reset_defaults()


def find_items(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    """Findings by check."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in json.loads(capsys.readouterr().out)["items"]:
        found.setdefault(item["check"], []).append(item)
    return found


def machine(root: Path) -> tuple[str, ...]:
    """Flags that name a machine's files."""
    return f"--host-root={root}", f"--kubelet-socket={root}/dp/kubelet.sock", "--node-name=n1", "--cards=two-t4"


def test_what_was_found_on_the_machine_is_told_although_the_cluster_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["doctor", "--node", "--cluster", "--json", "--kubeconfig=/none", *machine(tmp_path)])
    assert (code, find_items(capsys)["kubelet"][0]["severity"]) == (ExitCode.UNKNOWN, "error")


def test_a_cluster_alone_that_does_not_answer_gives_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--cluster", "--json", "--kubeconfig=/none"])
    assert (code, capsys.readouterr().out) == (ExitCode.UNKNOWN, "")


def test_a_plugin_that_the_chart_started_is_judged_by_its_own_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("gpuloom", "device-plugin", "--config-file=/device-config/config.yaml", "--cards=/cards/cards.toml")
    write(tmp_path / "proc/9/cmdline", "\0".join(words))
    write(tmp_path / "proc/9/environ", "NODE_NAME=n7\0")
    write(tmp_path / "proc/9/root/device-config/config.yaml", "nvidia: {resourceCountName: example.com/vgpu}")
    write(tmp_path / "proc/9/root/cards/cards.toml", '[[cards]]\nmodel = "NVIDIA L4"\nmemory_mib = 20000\n')
    monkeypatch.setattr(doctor_flags, "find_plugin", lambda _: find_plugin(tmp_path))
    run(["doctor", "--node", "--json"])
    found = find_items(capsys)
    assert {check: found[check][0]["severity"] for check in ("configuration", "cards")} == {
        "configuration": "ok",
        "cards": "ok",
    }
