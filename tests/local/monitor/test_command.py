"""``gpuloom monitor`` as a process."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.local.apiserver import LocalApiServer


@asynccontextmanager
async def running(tmp_path, *tokens, **environment):
    """The process, and the line that it says first."""
    async with LocalApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gpuloom.cli", "monitor", "--cards=two-t4", "--metrics-bind-address=127.0.0.1:0"),
            *(f"--kubeconfig={tmp_path / 'kubeconfig'}", *tokens),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "HOOK_PATH": str(tmp_path), "NODE_NAME": "n1", **environment},
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                line = (await process.stdout.readline()).decode().strip()
                yield process, line
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def scrape(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def test_the_first_line_says_where_metrics_are(tmp_path):
    async with running(tmp_path) as (_, url):
        assert "hami_build_info" in await scrape(url)


@pytest.mark.parametrize(("flag", "told"), [("--legacy-metrics=false", False), ("--legacy-metrics=true", True)])
async def test_old_names_are_told_as_hamis_chart_asks(tmp_path, flag, told):
    async with running(tmp_path, flag) as (_, url):
        assert ("HostGPUMemoryUsage" in await scrape(url)) is told


async def test_the_interval_is_taken_from_hamis_variable(tmp_path):
    async with running(tmp_path, HAMI_RESYNC_INTERVAL="5m0s") as (_, url):
        assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
async def test_a_signal_is_a_good_end(tmp_path, number):
    async with running(tmp_path) as (process, _):
        process.send_signal(number)
        assert await process.wait() == 0


@pytest.mark.parametrize("interval", ["-5m", "0s", "1s", "99999999999999d"])
def test_an_interval_in_which_the_directories_of_new_pods_would_vanish_is_wrong_usage(monkeypatch, capsys, interval):
    monkeypatch.setenv("NODE_NAME", "n1")
    assert run(["monitor", "--cards=two-t4", f"--resync-interval={interval}"]) is ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "--resync-interval" in line


def test_a_monitor_without_a_node_name_is_wrong_usage(monkeypatch):
    for name in ("NODE_NAME", "NodeName"):
        monkeypatch.delenv(name, raising=False)
    assert run(["monitor", "--cards", "two-t4"]) is ExitCode.USAGE
