"""Programs that use a card with what their container was given, and what they tell of it."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import IO, Protocol, TypeVar

import msgspec

from gpuloom.local.selftest.grants import ContainerGrant
from gpuloom.local.selftest.report import StepFailedError

_T = TypeVar("_T")
_ANSWER_S = 120.0
_TAIL_BYTES = 300
_WORKER = Path(__file__).with_name("worker.py")


class WorkerReport(msgspec.Struct, frozen=True):
    """What a process saw of its cards and what it could do; ``error`` is empty where nothing failed."""

    cards: list[str] = []
    total_bytes: int = 0
    is_taken: bool = False
    is_right: bool = False
    error: str = ""


class Progress(msgspec.Struct, frozen=True):
    """How many kernels a process has run until a moment of its clock."""

    launches: int = 0
    at_s: float = 0.0
    turns: int = 0
    error: str = ""


class Running:
    """A process that speaks for a program: its pipes, and where what it complains about is."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self.process = process
        self._errors = errors

    @property
    def pid(self) -> int:
        """The program's number on this machine, once it has answered."""
        return self.process.pid

    def explain_end(self, code: int) -> str:
        """Say how it ended that did not answer."""
        return f"a program on the card ended with {code}, without an answer: {self._read_tail()}"

    def _read_tail(self) -> str:
        """Return the end of what the process said, as one line."""
        self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        return " ".join(self._errors.read().decode(errors="replace").split())


class Launcher(Protocol):
    """How this machine starts programs with what a container was given."""

    def start(
        self, given: ContainerGrant, program: Path, arguments: Sequence[str], errors: IO[bytes]
    ) -> AbstractAsyncContextManager[Running]:
        """Run a program in Python while the block runs.

        Raises StepFailedError.
        """


class Program:
    """A running process on a card: its number, and what it saw."""

    def __init__(self, running: Running, seen: WorkerReport) -> None:
        self._running = running
        self.pid = running.pid
        self.seen = seen

    async def calibrate(self) -> int:
        """Return with how many turns a kernel takes some 10 ms.

        Raises StepFailedError, as the others.
        """
        return (await self._ask("calibrate")).turns

    async def spin(self, turns: int) -> None:
        """Begin to run kernels for ever."""
        await self._ask(f"spin {turns}")

    async def read_progress(self) -> Progress:
        """Return how many kernels have run."""
        return await self._ask("count")

    async def _ask(self, line: str) -> Progress:
        stdin = self._running.process.stdin
        if stdin is None:
            raise RuntimeError("the process has no pipes")
        try:
            stdin.write(f"{line}\n".encode())
            await stdin.drain()
        except ConnectionError as error:
            raise StepFailedError(f"a program on the card ended before it was told {line!r}") from error
        answer = await _read_answer(self._running, Progress)
        if answer.error:
            raise StepFailedError(f"a program on the card failed: {answer.error}")
        return answer


@asynccontextmanager
async def run_worker(launcher: Launcher, given: ContainerGrant, size: int) -> AsyncIterator[Program]:
    """Let a process take so many bytes, and hold them while the block runs.

    Raises StepFailedError when it does not answer.
    """
    # A limiter may log without end, which a pipe that nobody reads would stop.
    with tempfile.TemporaryFile() as errors:
        async with launcher.start(given, _WORKER, [str(size)], errors) as running:
            seen = await _read_answer(running, WorkerReport)
            yield Program(running, seen)


async def _read_answer(running: Running, form: type[_T]) -> _T:
    if running.process.stdout is None:
        raise RuntimeError("the process has no pipes")
    try:
        async with asyncio.timeout(_ANSWER_S):
            line = await running.process.stdout.readline()
    except TimeoutError as error:
        raise StepFailedError(f"a program on the card did not answer within {_ANSWER_S:g} s") from error
    try:
        return msgspec.json.decode(line, type=form)
    except msgspec.DecodeError as error:
        if line:
            raise StepFailedError(f"a program on the card answers {line[:100]!r}") from error
        raise StepFailedError(running.explain_end(await running.process.wait())) from error
