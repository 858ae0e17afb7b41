"""Child processes of the harness end in time, explain themselves, and never outlive the test run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.processes import ChildProcess, ProcessError

OUTLIVED = r"""
import sys, time
from pathlib import Path
from harness.processes import ChildProcess
process = ChildProcess("sleeper", ["sh", "-c", "echo on; exec sleep 600"], log=Path(sys.argv[1]))
process.wait_until(lambda: process.log.read_text() == "on\n")
print(process.pid, flush=True)
time.sleep(600)
"""


def test_stopping_ends_what_the_process_started_as_well(tmp_path: Path) -> None:
    process = ChildProcess("parent", ["sh", "-c", "sleep 600 & echo $!; wait"], log=tmp_path / "log")
    process.wait_until(lambda: process.log.read_text().endswith("\n"))
    process.stop()
    _wait_for_end(int(process.log.read_text()))


def test_process_that_ignores_the_polite_signal_is_ended_by_force(tmp_path: Path) -> None:
    process = ChildProcess("stubborn", ["sh", "-c", "trap '' TERM; echo on; sleep 600"], log=tmp_path / "log")
    process.wait_until(lambda: process.log.read_text() == "on\n")
    process.stop(grace_s=0.1)
    assert process.exit_status == -signal.SIGKILL


def test_process_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = ChildProcess("broken", ["sh", "-c", "echo no such flag; exit 3"], log=tmp_path / "log")
    with pytest.raises(ProcessError, match=r"broken ended with status 3 before it was ready.*\nno such flag"):
        process.wait_until(lambda: False)


def test_process_that_never_gets_ready_is_reported(tmp_path: Path) -> None:
    with (
        ChildProcess("slow", ["sleep", "600"], log=tmp_path / "log") as process,
        pytest.raises(ProcessError, match="slow was not ready within 0 s"),
    ):
        process.wait_until(lambda: False, timeout_s=0)


def test_process_dies_with_a_killed_test_run(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", OUTLIVED, str(tmp_path / "log")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as test_run:
        assert test_run.stdout
        pid = int(test_run.stdout.readline())
        test_run.kill()
    _wait_for_end(pid)


def _wait_for_end(pid: int) -> None:
    """Wait until a process that is not our child is gone or a corpse."""
    deadline_s = time.monotonic() + 120
    while _is_running(pid):
        assert time.monotonic() < deadline_s, f"process {pid} still runs"
        time.sleep(0.02)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
