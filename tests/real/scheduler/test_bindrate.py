"""The script that compares rates of binding, whose figures a page has, runs on a small cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import clean_environment

pytestmark = pytest.mark.control_plane

ROOT = Path(__file__).parents[3]


def test_pods_of_both_extenders_are_bound_and_compared(control_plane_binaries: None) -> None:
    command = [sys.executable, "benchmarks/bindrate.py", "--nodes=4", "--pods=20", "--pairs=1"]
    environment = clean_environment() | {"PYTHONPATH": "tests"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    pair, whole = map(json.loads, done.stdout.splitlines())
    assert (pair["ratio"], pair["served_ratio"]) == (whole["ratio"], whole["served_ratio"])
    assert whole["ratio"] > 0
