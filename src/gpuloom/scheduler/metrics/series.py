"""What Prometheus is told: HAMi's metrics under their names, and gpuloom's own about itself (scheduler 8.5).

Values are read when they are asked for. Nothing here keeps a copy of what the scheduler knows.
"""

import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version

ZONE = "vGPU"

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
