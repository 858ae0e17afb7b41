"""The file of a live recording: written beside the requests, never before them.

Lines wait in a bounded queue. What does not fit is left out, and a line says how much. Some lines are known only after
later ones: they get a slot, and all lines behind it wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec
import structlog

from gpuloom.scheduler.recording.header import JsonLine
from gpuloom.scheduler.recording.rotation import RotatedFile

QUEUE_LINES = 20_000
FILE_BYTES = 64 * 2**20

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class LineSlot:
    """A place for lines that are still to come; None while they are."""

    text: bytes | None = None
    begins_file: bool = False


@dataclass(slots=True)
class RecordingWriter:
    """Takes lines without waiting; an async context manager that writes what is left at the end.

    begin       gives the first lines of every file
    lost        how many lines were left out
    """

    path: Path
    begin: Callable[[], Iterable[JsonLine]] = tuple
    queue_lines: int = QUEUE_LINES
    file_bytes: int = FILE_BYTES
    lost: int = 0
    _file: RotatedFile = field(init=False)
    _queue: deque[LineSlot] = field(default_factory=deque)
    _unsaid: int = 0
    _bytes: int = 0
    _closing: bool = False
    _is_broken: bool = False
    _work: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin the file.

        Raises OSError when it cannot be made.
        """
        self._file = RotatedFile(self.path)
        self._file.open_next()
        self._begin_file(begins_file=False)
        self._task = asyncio.create_task(self._run(), name="recording")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        # Not cancelled: a write that runs in its thread would go on beside the next.
        self._closing = True
        self._work.set()
        if self._task is not None:
            await self._task
        for slot in self._queue:
            slot.text = slot.text or b""
        await self._write_ready()
        try:
            self._file.close()
        except OSError as error:
            self._complain(error)

    async def flush(self) -> None:
        """Wait until nothing waits to be written."""
        await self._idle.wait()

    def write(self, *lines: JsonLine) -> None:
        """Take lines that belong together; never waits."""
        if slot := self.open_slot():
            self.fill(slot, *lines)
        else:
            self.lose(len(lines) - 1)

    def open_slot(self) -> LineSlot | None:
        """Keep a place for lines; None when there is none, which counts as a lost line."""
        if len(self._queue) >= self.queue_lines:
            self.lose(1)
            return None
        if self._unsaid:
            self._append(LineSlot(_encode({"type": "LOST", "count": self._unsaid})))
            self._unsaid = 0
        slot = LineSlot()
        self._append(slot)
        return slot

    def fill(self, slot: LineSlot, *lines: JsonLine) -> None:
        """Put lines into a slot."""
        slot.text = b"".join(map(_encode, lines))
        self._bytes += len(slot.text)
        self._work.set()
        if self._bytes > self.file_bytes:
            self._begin_file(begins_file=True)

    def _begin_file(self, *, begins_file: bool) -> None:
        # As one piece and past the limit: a file that does not begin like this cannot be replayed.
        text = self._first_lines()
        self._bytes = len(text)
        self._append(LineSlot(text, begins_file=begins_file))
        self._work.set()

    def _first_lines(self) -> bytes:
        return b"".join(map(_encode, self.begin()))

    def _append(self, slot: LineSlot) -> None:
        self._queue.append(slot)
        self._idle.clear()

    def lose(self, count: int) -> None:
        """Count lines that are left out."""
        self.lost += count
        self._unsaid += count

    async def _run(self) -> None:
        while not self._closing:
            await self._work.wait()
            self._work.clear()
            await self._write_ready()
            if not self._queue:
                self._idle.set()

    async def _write_ready(self) -> None:
        """Write up to the first slot that is still open; after a failure in a new file, since lines are missing."""
        ready: list[LineSlot] = []
        while self._queue and self._queue[0].text is not None:
            ready.append(self._queue.popleft())
        pieces = [(slot.text or b"", slot.begins_file) for slot in ready]
        if pieces and self._is_broken:
            pieces.insert(0, (self._first_lines(), True))
        try:
            # Files have no asynchronous interface, and a slow disk must not hold up a request.
            await asyncio.to_thread(self._file.append, pieces)
        except OSError as error:
            self._is_broken = True
            self.lose(len(ready))
            self._complain(error)
        else:
            self._is_broken = self._is_broken and not pieces

    def _complain(self, error: OSError) -> None:
        _log.error("recording not written, lines are lost", file=str(self.path), cause=str(error))


def _encode(line: JsonLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"
