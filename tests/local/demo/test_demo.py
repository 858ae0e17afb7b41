import asyncio
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from gpuloom.local.demo import DemoError, perform_live, perform_once
from gpuloom.local.demo.story import Scene, Story
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.node.simulated import load_machine

STAGE = ClusterDescription((NodeDescription("node-a", load_machine("two-t4")),))
LARGE = pod_manifest("large", memory_mib=90000)
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


def test_one_round_names_what_leads_a_real_kubectl_there(temp_dir: Path) -> None:
    assert f"try: export KUBECONFIG={temp_dir}/gpuloom-" in run_demo(temp_dir, "--once").stdout


def test_the_pod_to_explain_is_one_that_is_there(temp_dir: Path) -> None:
    said = run_demo(temp_dir, "--once").stdout
    first, _, later = said.partition("Two pods fill A100 cards")
    assert ("gpuloom explain chat-1\n" in first, "gpuloom explain" in later) == (True, False)


def test_the_command_to_try_works_in_a_shell_without_the_environment(
    monkeypatch: pytest.MonkeyPatch, temp_dir: Path
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    said = run_demo(temp_dir, "--once").stdout
    (command,) = (line.removeprefix("try: ") for line in said.splitlines() if "gpuloom explain" in line)
    shown = subprocess.run(
        ["/bin/sh", "-c", f"{command.partition(' explain ')[0]} version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert shown.stdout.startswith("gpuloom ")


def test_the_command_to_try_is_short_where_every_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, temp_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "gpuloom").symlink_to(Path(sys.executable).parent / "gpuloom")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "try: gpuloom explain chat-1\n" in run_demo(temp_dir, "--once").stdout


async def watch_live(
    scene: Scene, text: str, console: Console | None = None, stage: ClusterDescription = STAGE
) -> list[str]:
    """Play a scene live until it has said a text, and return the lines said."""
    console = console or Console(file=io.StringIO(), width=140)
    said = console.file
    assert isinstance(said, io.StringIO)
    async with asyncio.timeout(60):
        playing = asyncio.create_task(perform_live(console, Story(stage, (scene,))))
        while text not in said.getvalue():
            await asyncio.wait({playing}, timeout=0.1)
            assert not playing.done()
    playing.cancel()
    await asyncio.wait({playing})
    return [line.rstrip() for line in said.getvalue().splitlines()]


async def test_the_pod_to_explain_is_one_that_waits_once_there_is_one() -> None:
    await watch_live(Scene("", comes=(pod_manifest("small", memory_mib=1000), LARGE)), "explain large\n")


async def test_a_narrow_terminal_shows_all_of_what_is_to_be_copied() -> None:
    terminal = Console(file=io.StringIO(), width=80, height=50, force_terminal=True, no_color=True)
    said = await watch_live(Scene("", comes=(LARGE,)), "metrics: ", terminal)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in said]
    (token,) = {line.removeprefix("token to sign in: ") for line in lines if line.startswith("token to sign in: ")}
    (metrics,) = {line for line in lines if line.startswith("metrics: ")}
    assert (len(token), metrics.endswith("as bearer)")) == (32, True)


async def test_a_window_of_24_lines_shows_all_cards_and_who_waits() -> None:
    """The tables of all cards and of who waits would take 30."""
    terminal = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, no_color=True)
    stage = ClusterDescription(
        tuple(NodeDescription(name, load_machine("eight-a100-40gb")) for name in ("node-a", "node-b"))
    )
    said = await watch_live(Scene("", comes=(LARGE,)), "CardInsufficientMemory", terminal, stage)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in said]
    free = "NVIDIA A100-SXM4-40GB  0% 0% 0% 0% 0% 0% 0% 0%"
    waits = " large  gpu=1 gpumem=90000  2 nodes CardInsufficientMemory(node-a,node-b)"
    frame = lines[max(at for at, line in enumerate(lines) if line.startswith("try: export")) :]
    assert len(frame) <= 24
    assert [line for line in frame if line.startswith(("node-", " large"))] == [
        f"node-a  {free}",
        f"node-b  {free}",
        waits,
    ]


async def test_a_scene_is_told_as_one_to_come_until_it_has_come_out() -> None:
    """It never does: the pod is too large."""
    said = await watch_live(Scene("large runs.", comes=(LARGE,), running=frozenset({"large"})), "explain large\n")
    assert ("Next: large runs." in said, "large runs." in said) == (True, False)


async def test_a_scene_that_has_come_out_is_told_as_it_is() -> None:
    scene = Scene("small runs.", comes=(pod_manifest("small", memory_mib=1000),), running=frozenset({"small"}))
    said = await watch_live(scene, "\nsmall runs.")
    assert "explain small\n" in "\n".join(said)


def test_one_round_leaves_no_file_behind(temp_dir: Path) -> None:
    run_demo(temp_dir, "--once")
    assert list(temp_dir.iterdir()) == []


def test_the_story_of_making_room_checks_itself_and_shows_who_makes_room_for_whom(temp_dir: Path) -> None:
    result = run_demo(temp_dir, "--story", "making-room", "--once")
    assert (result.returncode, result.stderr, list(temp_dir.iterdir())) == (0, "", [])
    said = [line.strip() for line in result.stdout.splitlines()]
    assert "urgent: PreemptionStarted: evicting 2 pods of lower priority from node node-a" in said
    # Events of one second are shown by name, those of two in the order of evictions.
    assert {line.partition(":")[0] for line in said if ": Preempted: " in line} == {"batch-1", "batch-2"}
    assert len([line for line in said if line.startswith("pod default/chat-") and "runs again on" in line]) == 2


def failing(message: str) -> pytest.RaisesGroup[DemoError]:
    return pytest.RaisesGroup(pytest.RaisesExc(DemoError, match=message), flatten_subgroups=True)


async def test_a_scene_that_does_not_come_out_is_an_error() -> None:
    story = Story(STAGE, (Scene("", comes=(LARGE,), running=frozenset({"large"})),))
    with failing("after 2 s: pod large does not run"):
        await perform_once(Console(quiet=True), story, settle_s=2)


async def test_moves_that_help_nobody_are_an_error() -> None:
    story = Story(STAGE, (Scene("", comes=(LARGE,), moves_for="large"),))
    with failing("no moves make room for pod large"):
        await perform_once(Console(quiet=True), story)


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
        assert process.stdout.readline().startswith("try: export KUBECONFIG=")
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors, list(temp_dir.iterdir())) == (0, "", [])
