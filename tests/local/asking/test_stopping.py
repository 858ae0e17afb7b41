"""What a command does that is stopped by a signal before its answer."""

import asyncio
import signal

import pytest
from local.asking.conftest import POD, Stage, start_gpuloom
from local.asking.terminal import wait_until_met

from gpuloom.local.apiserver import InjectedFault

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "tokens",
    [
        ("pods",),
        ("explain", "waits"),
        ("fits", "-f", "-"),
        ("defrag",),
        ("cordon", "node-a/0"),
        ("drain-card", "node-a/0", "--dry-run"),
        ("drain-card", "node-a/0", "--yes"),
        ("doctor", "--cluster"),
        ("snapshot",),
    ],
    ids=" ".join,
)
async def test_a_command_without_an_answer_does_not_end_as_if_it_had_one(stage: Stage, tokens: tuple[str, ...]) -> None:
    slow = InjectedFault(method="GET", path="limit=", delay_s=1.0)
    stage.cluster.server.faults.add(slow)
    process = await start_gpuloom(*tokens, kubeconfig=str(stage.cluster.kubeconfig))
    assert process.stdin is not None
    process.stdin.write(POD.encode())
    process.stdin.write_eof()
    await wait_until_met(stage.cluster.server, slow)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
