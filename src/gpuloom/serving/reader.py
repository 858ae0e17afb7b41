"""The process that reads large or hostile texts (``python -m gpuloom.serving.reader``), one after the other.

It gets nothing but its two pipes: the worst that a text can do is end it.
"""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from gpuloom.serving.frames import HEAD, READ, REFUSED, Verb, pack, unpack_head
from gpuloom.serving.manifests import ManifestError, read_manifest
from gpuloom.wire.admission import trim_review
from gpuloom.wire.errors import WireError

_MOST_MEMORY_BYTES = 512 * 2**20
_NICENESS = 15
"""kube-scheduler's calls go first when there are few processors."""


def main() -> None:
    """Read texts until there are none."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    _go_last()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def _go_last() -> None:
    os.nice(_NICENESS)
    # Where the kernel shares processors out by sessions, niceness counts within one, and this process has its own.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICENESS), "ascii")
    # Niceness means nothing to a real-time policy, with which somebody may have started the scheduler.
    os.sched_setparam(0, os.sched_param(os.sched_get_priority_min(os.sched_getscheduler(0))))


def serve(texts: BinaryIO, answers: BinaryIO) -> None:
    """Answer texts until there are none."""
    while len(head := texts.read(HEAD.size)) == HEAD.size:
        verb, length = unpack_head(head)
        answers.write(_answer(verb, texts.read(length)))
        answers.flush()


def _answer(verb: int, text: bytes) -> bytes:
    try:
        return pack(READ, trim_review(text) if verb == Verb.REVIEW else _write_manifest(text))
    except (WireError, ManifestError) as error:
        return pack(REFUSED, str(error).encode(errors="replace"))


def _write_manifest(text: bytes) -> bytes:
    try:
        return msgspec.json.encode(read_manifest(text.decode(errors="replace")))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise ManifestError(f"it is no pod: {error}") from error


if __name__ == "__main__":
    main()
