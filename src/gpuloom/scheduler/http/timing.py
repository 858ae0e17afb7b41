"""Times calls: for metrics, for whoever gives way to them, and for the log."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector

BUSY_S = 0.02
"""Calls that come one after the other are not as far apart as this."""
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)

_log = structlog.get_logger(__name__)


class Latencies:
    """How long calls took, by verb; a registry of its own because the library's is one for the whole process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._histogram = Histogram(
            "gpuloom_request_duration_seconds",
            "Time from a call's headers, or a review's body, to its answer",
            ["verb"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        # A logger that is not bound is made anew for every line, even for one that is not written.
        self._by_verb: dict[str, tuple[Histogram, Any]] = {}
        self.underway = 0
        """Calls that have come and whose answers have not gone out."""
        self._answered_s = -math.inf

    @property
    def is_busy(self) -> bool:
        """Whether a call is underway, or was until a moment ago: then the next one is likely to be on its way."""
        return self.underway > 0 or time.perf_counter() - self._answered_s < BUSY_S

    @contextmanager
    def measure(self, verb: str) -> Iterator[None]:
        """Take that a call is underway while this is entered."""
        began_s = time.perf_counter()
        self.underway += 1
        try:
            yield
        finally:
            self.underway -= 1
            self.observe(verb, time.perf_counter() - began_s)

    def observe(self, verb: str, seconds: float) -> None:
        """Note one call, which is answered now."""
        self._answered_s = time.perf_counter()
        if verb not in self._by_verb:
            self._by_verb[verb] = self._histogram.labels(verb), _log.bind(verb=verb)
        histogram, log = self._by_verb[verb]
        histogram.observe(seconds)
        log.debug("answered", seconds=round(seconds, 6))
