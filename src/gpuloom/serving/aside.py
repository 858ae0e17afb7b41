"""A process aside that reads large or hostile texts: they cost the event loop their transport and nothing else.

A thread would not do: a decoder holds Python's lock as long as it runs. One text is read at a time, by a process that
is started when it is first needed and ends when a text takes too long or too much memory.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process

from gpuloom.serving.frames import HEAD, REFUSED, Verb, pack, unpack_head

_MODULE = "gpuloom.serving.reader"
_START_S = 30.0


class UnreadableError(Exception):
    """A text cannot be read; the message says why."""


class CrowdedError(Exception):
    """Too many texts wait to be read."""


class Aside:
    """Reads texts in a process of its own."""

    def __init__(self, *, within_s: float = 2.0, most_waiting: int = 16) -> None:
        self.refused = 0
        """Texts that were not read, because too many waited."""
        self._within_s = within_s
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._process: Process | None = None

    async def read(self, verb: Verb, text: bytes) -> bytes:
        """Return what is left of a text.

        Raises UnreadableError, CrowdedError.
        """
        if self._waiting >= self._most_waiting:
            self.refused += 1
            raise CrowdedError("too many large bodies at once: try again in a moment")
        self._waiting += 1
        try:
            # Whoever asked may go away: the process must not be left in the middle of a text.
            return await asyncio.shield(asyncio.ensure_future(self._read(verb, text)))
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._end()

    async def _read(self, verb: Verb, text: bytes) -> bytes:
        async with self._turn:
            try:
                process = self._process or await self._start()
                async with asyncio.timeout(self._within_s):
                    status, answer = await _exchange(process, verb, text)
            except (TimeoutError, EOFError, OSError) as error:
                await self._end()
                raise UnreadableError("cannot be read: it takes too much time or memory") from error
        if status == REFUSED:
            raise UnreadableError(answer.decode(errors="replace"))
        return answer

    async def _start(self) -> Process:
        # A group of its own: whoever interrupts this process by the keyboard does not mean that one.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", _MODULE, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        async with asyncio.timeout(_START_S):
            await _exchange(self._process, Verb.MANIFEST, b"{}")
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


async def _exchange(process: Process, verb: Verb, text: bytes) -> tuple[int, bytes]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a process without pipes")
    process.stdin.write(pack(verb, text))
    await process.stdin.drain()
    status, length = unpack_head(await process.stdout.readexactly(HEAD.size))
    return status, await process.stdout.readexactly(length)
