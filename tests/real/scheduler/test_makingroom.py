"""The script that measures how room is made on a real control plane runs on a small cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import clean_environment

pytestmark = pytest.mark.control_plane

ROOT = Path(__file__).parents[3]


def test_calls_beside_preemptions_and_the_time_until_room_is_used_are_measured(control_plane_binaries: None) -> None:
    command = [sys.executable, "benchmarks/makingroom.py", "--nodes=4", "--rounds=1"]
    environment = clean_environment() | {"PYTHONPATH": "tests"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    room, storm, ratio, computing, empty = map(json.loads, done.stdout.splitlines())
    assert room["count"] > 0
    assert storm["count"] > 0
    assert ratio["p50"] == pytest.approx(storm["p50_ms"] / room["p50_ms"], abs=0.01)
    assert computing["p50"] == pytest.approx(storm["computing_p50_ms"] / room["computing_p50_ms"], abs=0.01)
    assert empty["count"] == 4
