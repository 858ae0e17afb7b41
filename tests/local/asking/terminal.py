"""Commands at a terminal: somebody is there to be asked."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from local.asking.conftest import DEADLINE_S, Said

from gpuloom.local.apiserver import InjectedFault, LocalApiServer


@dataclass
class Terminal:
    """A command whose standard input is a terminal."""

    process: asyncio.subprocess.Process
    keyboard: int

    async def wait_until_asked(self) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            await self.process.stderr.readuntil(b"[y/N] ")

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    async def end(self) -> Said:
        async with asyncio.timeout(DEADLINE_S):
            out, err = await self.process.communicate()
        return Said(self.process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def open_terminal(*tokens: str, kubeconfig: str) -> AsyncIterator[Terminal]:
    """Run a command; it is ended at the end, if it has not."""
    keyboard, stdin = os.openpty()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuloom.cli",
        *tokens,
        stdin=stdin,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "KUBECONFIG": kubeconfig},
    )
    os.close(stdin)
    try:
        yield Terminal(process, keyboard)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        os.close(keyboard)


async def wait_until_met(server: LocalApiServer, fault: InjectedFault) -> None:
    """Wait until a request has met a fault that happens once."""
    async with asyncio.timeout(DEADLINE_S):
        while fault in server.faults.waiting:  # noqa: ASYNC110 - it happens in another process's request
            await asyncio.sleep(0.02)
