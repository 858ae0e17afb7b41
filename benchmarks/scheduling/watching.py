"""What goes on in a scheduler process while calls are timed: changes that come in, and how long its loop stalls."""

import re
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from gpuloom.serving.scrapes import FRESH_S

LOOK_S = 0.25
_CHANGES = re.compile(r'^gpuloom_watch_changes_total\{resource="pods"\} (\S+)$', re.MULTILINE)


@dataclass
class Seen:
    """Changes of pods that arrived a second, and the longest stall: all of it, and what the process computed of it."""

    changes_per_s: float = 0.0
    stall_ms: float = 0.0
    computing_ms: float = 0.0

    def take(self, text: str) -> None:
        """Take an answer of the process about its stalls."""
        said = dict(line.split() for line in text.splitlines())
        self.stall_ms = max(self.stall_ms, float(said["longest_ms"]))
        self.computing_ms = max(self.computing_ms, float(said["computing_ms"]))


@dataclass(frozen=True)
class Watcher:
    """Asks a process at its main port, which must have ``--profiling``, and at its metrics."""

    url: str
    metrics: str
    tls: ssl.SSLContext

    @contextmanager
    def watch(self) -> Iterator[Seen]:
        """Watch until the end of the block; the figures are there after it."""
        seen, ended = Seen(), threading.Event()
        changes, began_s = self._count_changes(), time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(self._look, seen, ended)
            try:
                yield seen
            finally:
                ended.set()
        looking.result()
        seen.changes_per_s = (self._count_changes() - changes) / (time.monotonic() - began_s)

    def scrape(self) -> int:
        """Read all metrics, as Prometheus does; how many bytes they are."""
        connection = HTTPConnection(self.metrics)
        size = len(_get(connection, "/metrics"))
        connection.close()
        return size

    def _look(self, seen: Seen, ended: threading.Event) -> None:
        where = urlsplit(self.url)
        connection = HTTPSConnection(str(where.hostname), where.port, context=self.tls)
        while not ended.is_set():
            seen.take(_get(connection, f"/debug/pprof/stalls?seconds={LOOK_S}"))
        connection.close()

    def _count_changes(self) -> float:
        """Read the count in metrics that are made now: for a second everybody gets the same ones."""
        time.sleep(FRESH_S + LOOK_S)
        connection = HTTPConnection(self.metrics)
        connection.request("GET", "/metrics")
        reply, text = connection.getresponse(), ""
        while not (found := _CHANGES.search(text)):
            piece = reply.read1()
            if not piece:
                raise RuntimeError("the scheduler's metrics do not count changes")
            text += piece.decode()
        connection.close()
        return float(found[1])


def _get(connection: HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    reply = connection.getresponse()
    text = reply.read().decode()
    if reply.status != 200:
        raise RuntimeError(f"{path} was answered with {reply.status}")
    return text
