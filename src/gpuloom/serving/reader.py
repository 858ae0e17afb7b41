"""The process that reads large or hostile texts (``python -m gpuloom.serving.reader 2.0``), one after the other.

It gets nothing but its two pipes, and the seconds that one text may compute: the worst that a text can do is end it.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
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
    serve(sys.stdin.buffer, sys.stdout.buffer, partial(_end_after, float(sys.argv[1])))


def _go_last() -> None:
    # A group, so that an interrupt from the keyboard is not meant for this process; no session, to which the kernel
    # may give as many turns as to the scheduler's (autogroup).
    os.setpgid(0, 0)
    os.nice(_NICENESS)
    # Niceness means nothing to a real-time policy, with which somebody may have started the scheduler.
    os.sched_setparam(0, os.sched_param(os.sched_get_priority_min(os.sched_getscheduler(0))))


def serve(texts: BinaryIO, answers: BinaryIO, limit: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
    """Answer texts until there are none, each within the limit."""
    while len(head := texts.read(HEAD.size)) == HEAD.size:
        verb, length = unpack_head(head)
        text = texts.read(length)
        with limit():
            answer = _answer(verb, text)
        answers.write(answer)
        answers.flush()


@contextmanager
def _end_after(computing_s: float) -> Iterator[None]:
    """End this process if it computes too long. On a busy machine, time passes that is not the text's fault."""
    signal.setitimer(signal.ITIMER_PROF, computing_s)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


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
