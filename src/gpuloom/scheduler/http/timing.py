"""Times calls: for metrics, for whoever gives way to them, and for the log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from gpuloom.scheduler.metrics.series import Latencies

_log = structlog.get_logger(__name__)


class CallTimer:
    """Times the calls of one verb."""

    def __init__(self, latencies: Latencies, verb: str) -> None:
        self._latencies = latencies
        self._verb = verb
        # Bound once: a logger that is not is made anew for every line, even for one that is not written.
        self._log = _log.bind(verb=verb)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Take that a call is underway while this is entered."""
        began_s = time.perf_counter()
        self._latencies.underway += 1
        try:
            yield
        finally:
            self._latencies.underway -= 1
            took_s = time.perf_counter() - began_s
            self._latencies.observe(self._verb, took_s)
            self._log.debug("answered", seconds=round(took_s, 6))
