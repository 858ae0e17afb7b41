import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

GPULOOM = [sys.executable, "-m", "gpuloom.cli"]


@pytest.fixture
def temp_dir() -> Iterator[Path]:
    # Sockets lie below it, so its path must be short.
    with tempfile.TemporaryDirectory(prefix="gl-") as directory:
        yield Path(directory)


def run_demo(temp_dir: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GPULOOM, "demo", *flags],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "TMPDIR": str(temp_dir)},
    )


@contextmanager
def running_demo(temp_dir: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*GPULOOM, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temp_dir)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_one_round_checks_itself_and_succeeds(temp_dir: Path) -> None:
    result = run_demo(temp_dir, "--once")
    assert (result.returncode, result.stderr) == (0, "")


def test_one_round_shows_why_a_pod_waits(temp_dir: Path) -> None:
    assert "3 nodes CardInsufficientMemory(node-a,node-b,node-c)" in run_demo(temp_dir, "--once").stdout


def test_one_round_names_the_command_for_a_real_kubectl(temp_dir: Path) -> None:
    assert f"kubectl --kubeconfig {temp_dir}/gpuloom-" in run_demo(temp_dir, "--once").stdout


def test_one_round_leaves_no_file_behind(temp_dir: Path) -> None:
    run_demo(temp_dir, "--once")
    assert list(temp_dir.iterdir()) == []


def test_a_taken_port_is_one_line_and_leaves_nothing_behind(temp_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_demo(temp_dir, "--once", "--port", str(port))
    assert (result.returncode, result.stderr, list(temp_dir.iterdir())) == (
        1,
        f"gpuloom: 127.0.0.1:{port} is in use: choose another port with --port\n",
        [],
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_live_demo_well_and_leaves_nothing_behind(temp_dir: Path, number: signal.Signals) -> None:
    with running_demo(temp_dir) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("kubeconfig: ")
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors, list(temp_dir.iterdir())) == (0, "", [])
