"""A caller of Filter in a process of its own, so that nothing else of a benchmark delays it.

``python benchmarks/asking.py URL PID`` reads the bodies of calls from the first line of standard input, and makes them
in turn from ``on`` to ``off``. Then it prints the calls on one line: when each began in seconds of the machine's
monotonic clock, how long it took, and for how long the scheduler with this process id computed meanwhile.

It goes before all others on its processor, where the user may say so: a scheduler that computes on after its answer
must not delay the clock that is stopped by it.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from itertools import count
from urllib.parse import urlsplit

import msgspec
from figures import processor_clock

from gpuloom.wire.objects import Pod

PAUSE_S = 0.005
JSON = {"Content-Type": "application/json"}


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A call of Filter, in seconds."""

    began_s: float
    took_s: float
    computing_s: float


def make_body(pod: Pod, names: Sequence[str]) -> str:
    """Make a call about a pod."""
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names}).decode()


def ask(connection: HTTPConnection, clock: int, bodies: Sequence[str], ended: threading.Event) -> Iterator[Call]:
    """Ask about one pod after the other. Raise RuntimeError when one finds no room."""
    for number in count():
        if ended.wait(PAUSE_S):
            return
        computed_s, began_s = time.clock_gettime(clock), time.monotonic()
        connection.request("POST", "/filter", bodies[number % len(bodies)], JSON)
        answer = connection.getresponse().read()
        took_s, computing_s = time.monotonic() - began_s, time.clock_gettime(clock) - computed_s
        if not msgspec.json.decode(answer).get("NodeNames"):
            raise RuntimeError(f"the scheduler answered {answer!r}")
        yield Call(began_s, took_s, computing_s)


def go_first() -> None:
    """Run as soon as there is something to do, whoever computes on this processor."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError as error:
        print("calls may wait for a processor:", error, file=sys.stderr)


def wait_told(ended: threading.Event) -> None:
    """Wait until told to end."""
    sys.stdin.readline()
    ended.set()


def main() -> None:
    """Ask as told."""
    go_first()
    where, clock = urlsplit(sys.argv[1]), processor_clock(int(sys.argv[2]))
    bodies: list[str] = msgspec.json.decode(sys.stdin.readline())
    connection = HTTPConnection(str(where.hostname), where.port)
    while sys.stdin.readline().strip() == "on":
        ended = threading.Event()
        threading.Thread(target=wait_told, args=(ended,), daemon=True).start()
        calls = list(ask(connection, clock, bodies, ended))
        print(msgspec.json.encode(calls).decode(), flush=True)


if __name__ == "__main__":
    main()
