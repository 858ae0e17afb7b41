"""Processes that use a card with what their container was given, as this machine can start them without containers."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuloom.local.selftest.report import StepFailedError

_ANSWER_S = 120.0


class WorkerReport(msgspec.Struct, frozen=True):
    """What a process saw of its cards and what it could do; ``error`` is empty where nothing failed."""

    cards: list[str] = []
    total_bytes: int = 0
    is_taken: bool = False
    is_right: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    """What a container was given: its environment, and where programs find the limiter, if they load one."""

    environment: Mapping[str, str]
    library: Path | None = None

    @property
    def card(self) -> str:
        """The card that the container is shown."""
        return self.environment.get("NVIDIA_VISIBLE_DEVICES", "")

    def make_environment(self, scratch: Path) -> dict[str, str]:
        """Return the environment of a process that stands for the container's.

        No container runtime shows it the cards of NVIDIA_VISIBLE_DEVICES, so the driver's own variable does, and it
        preloads by LD_PRELOAD what a container finds in /etc/ld.so.preload.
        """
        environment = {**os.environ, **self.environment}
        environment["CUDA_VISIBLE_DEVICES"] = self.card
        if self.library is not None:
            scratch.mkdir(parents=True, exist_ok=True)
            environment["LD_PRELOAD"] = str(self.library)
            environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(scratch / "region.cache")
        return environment


@asynccontextmanager
async def run_worker(given: ContainerGrant, size: int, scratch: Path) -> AsyncIterator[tuple[int, WorkerReport]]:
    """Let a process take so many bytes, and hold them while the block runs; give its number and what it saw.

    Raises StepFailedError when it does not answer.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuloom.local.selftest.worker",
        str(size),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=given.make_environment(scratch),
    )
    try:
        yield process.pid, await _read_report(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _read_report(process: asyncio.subprocess.Process) -> WorkerReport:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the process has no pipes")
    try:
        async with asyncio.timeout(_ANSWER_S):
            line = await process.stdout.readline()
    except TimeoutError as error:
        raise StepFailedError(f"a program on the card did not answer within {_ANSWER_S:g} s") from error
    try:
        return msgspec.json.decode(line, type=WorkerReport)
    except msgspec.DecodeError as error:
        told = " ".join((await process.stderr.read()).decode(errors="replace").split())[-300:]
        code = await process.wait()
        raise StepFailedError(f"a program on the card ended with {code} and without an answer: {told}") from error
