"""A time limit ends a test, and never the run."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
SLOW_TO_TELL = """
import time

def look_slowly(excinfo):
    time.sleep(2)
    return False

def test_fails():
    __tracebackhide__ = look_slowly
    assert False, "told in full"

def test_hangs():
    time.sleep(60)

def test_passes():
    pass
"""


def run_pytest(directory: Path, text: str) -> str:
    file = directory / "test_given.py"
    file.write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "harness.limits", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--timeout=1", "--rootdir", str(directory), str(file)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_failure_that_takes_longer_to_tell_than_a_test_may_run_is_told_and_the_others_run(tmp_path: Path) -> None:
    told = run_pytest(tmp_path, SLOW_TO_TELL)
    assert "AssertionError: told in full" in told
    assert "Timeout (>1.0s)" in told
    assert "2 failed, 1 passed" in told
