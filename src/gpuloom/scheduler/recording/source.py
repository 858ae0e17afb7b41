"""Recordings as files: plain or gzip, or standard input; one line at a time, with its number."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.lines import AnyLine, decode_line

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"


class BadLineError(LineError):
    """A line of a file cannot be used; the message is ``FILE:LINE: what is wrong``."""

    def __init__(self, source: str, number: int, cause: Exception) -> None:
        super().__init__(f"{source}:{number}: {cause}")


@contextmanager
def open_source(source: str) -> Iterator[BinaryIO]:
    """Open a recording, ``-`` for standard input, and close it at the end.

    Raises OSError when there is no such file.
    """
    if source == STANDARD_INPUT:
        yield _decompress(sys.stdin.buffer)
        return
    with open(source, "rb") as file:  # noqa: PTH123 - the user's text is named in errors as it was given
        yield _decompress(file)


def _decompress(file: BinaryIO) -> BinaryIO:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
    if buffered.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        return cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    return buffered


def read_lines(source: str, file: BinaryIO) -> Iterator[tuple[int, bytes, AnyLine]]:
    """Give every line that is not blank: its number from 1, its text, and what it says.

    Raises BadLineError at the first that cannot be used.
    """
    number = 0
    while True:
        number += 1
        try:
            text = file.readline()
        except (OSError, EOFError, zlib.error) as error:
            raise BadLineError(source, number, error) from error
        if not text:
            return
        if text.strip():
            try:
                yield number, text, decode_line(text)
            except LineError as error:
                raise BadLineError(source, number, error) from error
