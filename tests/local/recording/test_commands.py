"""``snapshot`` and ``scheduler --record`` as people run them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local.scheduler.clock import poll

from gpuloom.cli.outcomes import ExitCode
from gpuloom.kube import NODES, KubeClient, load_kubeconfig
from gpuloom.local.apiserver import LocalApiServer

DEADLINE_S = 60.0
NODE = {"metadata": {"name": "n1", "annotations": {"hami.io/node-nvidia-register": "GPU-1,10,100,100,A40,0,true:"}}}


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    async with LocalApiServer(tls=False) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient(load_kubeconfig(tmp_path / "kubeconfig")) as client:
            await client.create(NODES, NODE)
        yield tmp_path / "kubeconfig"


async def start_gpuloom(*tokens: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "gpuloom.cli", *tokens, stdout=pipe, stderr=pipe)


async def test_snapshot_is_what_replay_reads(kubeconfig: Path, tmp_path: Path) -> None:
    process = await start_gpuloom("snapshot", "--kubeconfig", str(kubeconfig))
    async with asyncio.timeout(DEADLINE_S):
        out, _ = await process.communicate()
    assert [json.loads(text)["type"] for text in out.splitlines()] == ["SETTINGS", "ADDED", "RECONCILE"]


async def test_scheduler_records_from_its_start_to_its_end(kubeconfig: Path, tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    flags = ("--http_bind", "127.0.0.1:0", "--metrics-bind-address", "", "--record", str(recording))
    process = await start_gpuloom("scheduler", "--kubeconfig", str(kubeconfig), *flags)
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        await process.stdout.readline()
        await poll(lambda: b"RECONCILE" in recording.read_bytes())
        process.terminate()
        await process.communicate()
        check = await start_gpuloom("replay", "--check", str(recording))
        out, _ = await check.communicate()
    assert (process.returncode, check.returncode, out) == (ExitCode.YES, ExitCode.YES, b"0 answers, 0 differ\n")


async def test_file_that_cannot_be_made_is_named(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "r"
    flags = ("--http_bind", "127.0.0.1:0", "--metrics-bind-address", "", "--record", str(file))
    process = await start_gpuloom("scheduler", "--kubeconfig", str(kubeconfig), *flags)
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert process.returncode == ExitCode.NO
    assert err.decode().splitlines()[-1] == f"gpuloom: {file}: No such file or directory"
