"""Processes that use a card with what their container was given, as this machine can start them without containers."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from gpuloom.local.selftest.report import StepFailedError

_T = TypeVar("_T")
_ANSWER_S = 120.0
_TAIL_BYTES = 300
_LOCKS = Path("/tmp/vgpulock")  # noqa: S108 - the place that HAMi-core looks at
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


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    """What the container of a pod was given: its environment, and where on this machine its region is.

    `library` is the limiter that its programs load, None for none.
    """

    pod: str
    environment: Mapping[str, str]
    region: Path
    library: Path | None = None

    @property
    def card(self) -> str:
        """The card that the container is shown."""
        return self.environment.get("NVIDIA_VISIBLE_DEVICES", "")

    def make_environment(self) -> dict[str, str]:
        """Return the environment of a process that stands for the container's.

        No container runtime shows it the cards of NVIDIA_VISIBLE_DEVICES, so the driver's own variable does, and it
        preloads by LD_PRELOAD what a container finds in /etc/ld.so.preload. Nothing is mounted, so the region is named
        by its place on the host.
        """
        environment = {**os.environ, **self.environment}
        environment["CUDA_VISIBLE_DEVICES"] = self.card
        if self.library is not None:
            environment["LD_PRELOAD"] = str(self.library)
            environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(self.region)
        return environment


class Program:
    """A running process on a card: its number, and what it saw."""

    def __init__(self, process: asyncio.subprocess.Process, seen: WorkerReport, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self.pid = process.pid
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
        if self._process.stdin is None:
            raise RuntimeError("the process has no pipes")
        try:
            self._process.stdin.write(f"{line}\n".encode())
            await self._process.stdin.drain()
        except ConnectionError as error:
            raise StepFailedError(f"a program on the card ended before it was told {line!r}") from error
        answer = await _read_answer(self._process, Progress, self._errors)
        if answer.error:
            raise StepFailedError(f"a program on the card failed: {answer.error}")
        return answer


@contextmanager
def keep_lock_folder() -> Iterator[None]:
    """Have the folder in which HAMi-core locks, which a container gets mounted, while the block runs."""
    if _LOCKS.exists():
        yield
        return
    _LOCKS.mkdir(exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(_LOCKS, ignore_errors=True)


@asynccontextmanager
async def run_worker(given: ContainerGrant, size: int) -> AsyncIterator[Program]:
    """Let a process take so many bytes, and hold them while the block runs.

    Raises StepFailedError when it does not answer.
    """
    # A limiter may log without end, which a pipe that nobody reads would stop.
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_WORKER),
            str(size),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=given.make_environment(),
        )
        try:
            seen = await _read_answer(process, WorkerReport, errors)
            yield Program(process, seen, errors)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def _read_answer(process: asyncio.subprocess.Process, form: type[_T], errors: IO[bytes]) -> _T:
    if process.stdout is None:
        raise RuntimeError("the process has no pipes")
    try:
        async with asyncio.timeout(_ANSWER_S):
            line = await process.stdout.readline()
    except TimeoutError as error:
        raise StepFailedError(f"a program on the card did not answer within {_ANSWER_S:g} s") from error
    try:
        return msgspec.json.decode(line, type=form)
    except msgspec.DecodeError as error:
        if line:
            raise StepFailedError(f"a program on the card answers {line[:100]!r}") from error
        code = await process.wait()
        raise StepFailedError(f"a program on the card ended with {code}, without an answer: {_tail(errors)}") from error


def _tail(errors: IO[bytes]) -> str:
    """Return the end of what a process said, as one line."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
    return " ".join(errors.read().decode(errors="replace").split())
