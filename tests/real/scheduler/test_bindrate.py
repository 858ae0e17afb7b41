"""The scripts that compare rates of binding, whose figures a page has, run on a small cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import clean_environment

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]


def measure(script: str) -> list[dict[str, float]]:
    command = [sys.executable, f"benchmarks/{script}", "--nodes=4", "--pods=20", "--pairs=1"]
    environment = clean_environment() | {"PYTHONPATH": "tests"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


def test_pods_of_both_extenders_are_bound_and_compared(control_plane_binaries: None) -> None:
    pair, whole = measure("bindrate.py")
    assert (pair["ratio"], pair["served_ratio"]) == (whole["ratio"], whole["served_ratio"])
    assert whole["ratio"] > 0


def test_settings_of_kube_scheduler_are_compared_with_its_defaults(control_plane_binaries: None) -> None:
    cases = measure("kubescheduler.py")
    assert len(cases) == 4
    assert all(case["rate_ratio"] > 0 for case in cases)
