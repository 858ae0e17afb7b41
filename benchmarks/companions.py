"""Programs beside a benchmark: what they do is told on their standard input, what came of it read from their output."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def run(*command: Any, stdin: int | None = None, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends."""
    with log.open("wb") as errors:
        process = subprocess.Popen([*map(str, command)], stdin=stdin, stdout=subprocess.PIPE, stderr=errors)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


async def read_line(process: subprocess.Popen[bytes]) -> str:
    """Read a line that a program prints."""
    assert process.stdout is not None
    line = await asyncio.to_thread(process.stdout.readline)
    if not line:
        raise RuntimeError(f"{process.args} ended")
    return line.decode().strip()


def tell(process: subprocess.Popen[bytes], word: str) -> None:
    """Write a line to a program."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n".encode())
    process.stdin.flush()


def keep_off_last_processor() -> int:
    """Let this process, and those that it starts from now on, run on all its processors but the last; return that."""
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or {last})
    return last


def move_to(processor: int, *pids: int) -> None:
    """Let all threads of these processes run on one processor."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {processor})
