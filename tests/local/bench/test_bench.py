"""``gpuloom bench``: every part runs on a small cluster and prints what it is there to print."""

import json
from importlib import import_module
from typing import Any

import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.vendors.catalog import load_default_profiles


def bench(capsys: pytest.CaptureFixture[str], *words: str, nodes: int = 12) -> dict[str, dict[str, Any]]:
    assert run(["bench", *words, "--nodes", str(nodes)]) is ExitCode.YES
    return {case["case"]: case for case in map(json.loads, capsys.readouterr().out.splitlines())}


def test_a_repeated_shape_looks_at_the_node_that_changed_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    cases = bench(capsys, "decisions", "--no-oracle", nodes=60)
    assert cases["decision, repeated shape"]["nodes_refitted_per_decision"] < 2.1


def test_decisions_are_compared_with_the_oracle_in_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    case = bench(capsys, "decisions")["decision, nothing fits, every reason"]
    assert case["ratio"] == pytest.approx(case["oracle_p50_ms"] / case["p50_ms"], rel=0.1, abs=1)


def test_memory_of_the_state_is_that_of_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert 20 < bench(capsys, "memory")["memory of the state"]["rss_mib"] < 80


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_whole_calls_are_measured_with_and_without_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "calls", "--nodes", "12", "--no-oracle"]) is ExitCode.YES
    cases = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    asked = {case["events_per_s"]: case for case in cases if case["case"] == "/filter, fits, all names"}
    assert asked.keys() == {0, 500, 2000}
    assert {case["case"].partition(",")[2] for case in cases if "server_over_p50_ms" in case} == {
        " new shape, all names",
        " new shape, all names, while 1000 pods wait",
    }
    given = {case["flags"] for case in cases if case["case"] == "/filter, fits, all names" and "flags" in case}
    assert given == {"--node-scheduler-policy=fragmentation", "--node-choice=scheduler"}
    # Whoever looks at the process takes time, so that is done in the last run only.
    assert [case.get("changes_per_s", 0) > 0 for case in asked.values()] == [False, False, True]
    assert {case["events_per_s"] for case in cases if case["case"] == "/metrics" and case["bytes"] > 0} == asked.keys()


@pytest.fixture
def few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["bench", "memory", "--nodes", "1"]) is ExitCode.YES
    vendors = import_module("benchmarks.scheduling.vendors")
    monkeypatch.setattr(vendors, "REPEATED", 3)
    monkeypatch.setattr(vendors, "ANEW", 1)


@pytest.mark.usefixtures("few_repetitions")
def test_every_family_finds_a_node_in_a_cluster_of_all_families(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    cases = bench(capsys, "vendors", nodes=400)
    words = {profile.word for profile in load_default_profiles()}
    assert {word for word in words if cases[f"decision, {word}"]["fits"] == 3} == words


@pytest.mark.usefixtures("few_repetitions")
def test_goals_stand_beside_what_was_measured_of_vendors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "vendors", "--nodes", "40", "--most-of", "kunlun"]) is ExitCode.YES
    table = capsys.readouterr().err
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["kunlun", "kunlun,", "kunlun", "kunlun"]
    assert "50" in table.splitlines()[2]


def test_a_family_that_nobody_knows_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "vendors", "--nodes", "40", "--most-of", "abacus"]) is ExitCode.NO
    assert "abacus" in capsys.readouterr().err


def test_an_unknown_part_is_wrong_usage() -> None:
    assert run(["bench", "everything"]) is ExitCode.USAGE
