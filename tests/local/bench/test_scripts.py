"""The scripts whose figures the pages have: each runs on a small cluster and prints what it is there to print."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.availability import require
from harness.processes import clean_environment

ROOT = Path(__file__).parents[3]


def measure(script: str, *sizes: str) -> dict[str, dict[str, object]]:
    """Run a script of the checkout; return what it prints, by case."""
    return read_cases(f"benchmarks/{script}", *sizes)


def read_cases(*command: str) -> dict[str, dict[str, object]]:
    """Run Python in the checkout; return what it prints, by case."""
    env = {**clean_environment(), "PYTHONPATH": "tests"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, env=env, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return {case["case"]: case for case in map(json.loads, done.stdout.splitlines())}


def test_a_start_is_measured() -> None:
    (case,) = measure("startup.py", "--nodes=8", "--pods=16", "--runs=1").values()
    assert {"cpu_s", "wall_s", "rss_mib"} <= case.keys()


def test_explaining_is_measured_as_a_person_and_as_the_scheduler_sees_it() -> None:
    assert set(measure("explaining.py", "--nodes=8", "--pods=16", "--runs=1")) == {
        "gpuloom explain, summary",
        "gpuloom explain, all cards",
        "the scheduler's answer, summary",
        "the scheduler's answer, all cards",
    }


def test_planning_of_evictions_is_measured() -> None:
    cases = measure("preempting.py", "--nodes=100", "--runs=1")
    assert [case["victims"] for case in cases.values()] == [1, 1, 1, 8]


def test_decisions_beside_nominations_are_measured() -> None:
    cases = measure("nominated.py", "--nodes=40", "--runs=20")
    assert [case["node"] is None for case in cases.values()] == [False] * 5 + [True]


def test_planning_of_moves_is_measured_for_every_size() -> None:
    cases = measure("defragmentation.py", "--nodes=8", "--clusters=larger")
    tidying = cases.pop("larger, no pod")
    assert tidying["stranded_after"] <= tidying["stranded_before"]  # type: ignore[operator] # read from JSON
    assert [case["is_fewest"] for case in cases.values() if case["moves"]].count(False) == 0
    assert len(cases) == 8


def test_two_checkouts_are_compared_call_by_call() -> None:
    cases = read_cases("-m", "benchmarks.pairs", str(ROOT), "--nodes=12", "--calls=3", "--events=0")
    assert 0 < cases.pop("all cases")["middle"] < 10  # type: ignore[operator] # read from JSON
    assert {"this_p50_ms", "other_p50_ms", "ratio"} <= set.intersection(*map(set, cases.values()))


@pytest.mark.browser
def test_pages_are_measured_in_a_browser_too() -> None:
    require(shutil.which("chromium"), "no browser: chromium is not installed (see tools/debian-packages.txt)")
    cases = measure("dashboard.py", "--nodes=8", "--turns=1", "--seconds=0.5", "--browser")
    assert set(cases) == {"dashboard", "dashboard-browser"}
