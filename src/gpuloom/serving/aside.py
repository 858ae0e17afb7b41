"""A child process that reads large or hostile texts, so that the event loop only passes them on.

A thread would not help: a decoder holds Python's lock while it runs. The process reads one text at a time. It starts
when it is first needed, and ends when a text takes too much computing time or memory.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

from gpuloom.serving.frames import HEAD, REFUSED, Verb, unpack_head

_MODULE = "gpuloom.serving.reader"
_START_S = 30.0
_WITHIN_S = 8.0
"""Less than the API server waits for a webhook (10 s), more than a busy machine keeps the computing time back."""

_AT_ONCE_BYTES = 128 * 1024
"""Of a text: to write so much takes 0.1 ms, then others have their turn."""


class BadTextError(Exception):
    """A text cannot be read; the message says why."""


class ReaderBusyError(Exception):
    """Too many texts wait to be read."""


class Aside:
    """Reads texts in a child process, one after the other."""

    def __init__(self, *, computing_s: float = 2.0, within_s: float = _WITHIN_S, most_waiting: int = 16) -> None:
        self.refused = 0
        """How many texts were not read because too many waited."""
        self._computing_s = computing_s
        self._within_s = within_s
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._is_closed = False

    async def read(self, verb: Verb, *pieces: bytes) -> bytes:
        """Return what the process makes of a text in pieces: a review without what nobody reads, a manifest as JSON.

        Raises BadTextError, ReaderBusyError.
        """
        if self._waiting >= self._most_waiting:
            self.refused += 1
            raise ReaderBusyError("too many large bodies at once: try again in a moment")
        self._waiting += 1
        try:
            # A caller that goes away while it waits leaves the queue, with its text.
            await self._turn.acquire()
        except BaseException:
            self._waiting -= 1
            raise
        # A caller that goes away now is ignored: the process must not stop in the middle of a text.
        reading = asyncio.create_task(self._read_in_turn(verb, pieces))
        reading.add_done_callback(_note_end)
        return await asyncio.shield(reading)

    async def close(self) -> None:
        """End the process, also in the middle of a text; nothing is read any more."""
        self._is_closed = True
        await self._end()

    async def _read_in_turn(self, verb: Verb, pieces: Sequence[bytes]) -> bytes:
        try:
            return await self._read(verb, pieces)
        finally:
            self._waiting -= 1
            self._turn.release()

    async def _read(self, verb: Verb, pieces: Sequence[bytes]) -> bytes:
        try:
            process = self._process or await self._start()
            async with asyncio.timeout(self._within_s):
                status, answer = await _exchange(process, verb, pieces)
        except (TimeoutError, EOFError, OSError) as error:
            await self._end()
            raise BadTextError("cannot be read: it takes too much time or memory") from error
        if status == REFUSED:
            raise BadTextError(answer.decode(errors="replace"))
        return answer

    async def _start(self) -> Process:
        if self._is_closed:
            raise EOFError("closed")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _MODULE, str(self._computing_s)),
            stdin=PIPE,
            stdout=PIPE,
        )
        if self._is_closed:
            raise EOFError("closed while it started")
        async with asyncio.timeout(_START_S):
            await _exchange(self._process, Verb.MANIFEST, (b"{}",))
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


def _note_end(reading: "asyncio.Task[bytes]") -> None:
    """Consume a failure that nobody waits for any more."""
    if not reading.cancelled():
        reading.exception()


async def _exchange(process: Process, verb: Verb, pieces: Sequence[bytes]) -> tuple[int, bytes]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a process without pipes")
    process.stdin.write(HEAD.pack(verb, sum(map(len, pieces))))
    # Not joined before: to copy megabytes takes the event loop longer than others should wait.
    for piece in pieces:
        for start in range(0, len(piece), _AT_ONCE_BYTES):
            process.stdin.write(memoryview(piece)[start : start + _AT_ONCE_BYTES])
            await process.stdin.drain()
            # A process that keeps up with what is written leaves nothing to drain: others would have no turn.
            await asyncio.sleep(0)
    status, length = unpack_head(await process.stdout.readexactly(HEAD.size))
    return status, await process.stdout.readexactly(length)
