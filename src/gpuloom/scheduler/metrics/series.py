"""What Prometheus is told: HAMi's metrics under their names, and gpuloom's own about itself (scheduler 8.5).

Values are read when they are asked for. Nothing here keeps a copy of what the scheduler knows.
"""

import math
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector

ZONE = "vGPU"
BUSY_S = 0.02
"""Calls that come one after the other are not as far apart as this."""
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)

Samples = Iterable[tuple[tuple[str, ...], float] | None]
"""Label values and a value; None for something that was looked at and has nothing to tell: looking takes time too."""


@dataclass(frozen=True, slots=True)
class Series:
    """All samples of one name, made when they are asked for."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[], Samples]
    kind: str = "gauge"

    def with_zone(self) -> "Series":
        """Add HAMi's constant label."""

        def samples() -> Samples:
            for sample in self.samples():
                yield sample and ((*sample[0], ZONE), sample[1])

        return Series(self.name, self.help, (*self.labels, "zone"), samples, self.kind)


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
        self._by_verb: dict[str, Histogram] = {}
        self.underway = 0
        """Calls that have come and whose answers have not gone out."""
        self._answered_s = -math.inf

    @property
    def is_busy(self) -> bool:
        """Whether a call is underway, or was until a moment ago: then the next one is likely to be on its way."""
        return self.underway > 0 or time.perf_counter() - self._answered_s < BUSY_S

    def observe(self, verb: str, seconds: float) -> None:
        """Note one call, which is answered now."""
        self._answered_s = time.perf_counter()
        histogram = self._by_verb.get(verb)
        if histogram is None:
            histogram = self._by_verb[verb] = self._histogram.labels(verb)
        histogram.observe(seconds)


def build_info() -> Series:
    """Say what runs; HAMi's labels, filled with what they mean for Python."""
    values = (version("gpuloom"), "", "", f"python{platform.python_version()}", platform.python_implementation())
    labels = ("version", "revision", "build_date", "go_version", "compiler", "platform")
    place = f"{sys.platform}/{platform.machine()}"
    return Series(
        "hami_build_info",
        "1 for the version that runs; go_version names Python's",
        labels,
        lambda: [((*values, place), 1.0)],
    )
