"""Writing metrics for Prometheus, a chunk at a time: a large cluster has hundreds of thousands of samples.

Between two chunks calls are answered, so samples of one reply may be some milliseconds apart.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from itertools import islice

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.utils import floatToGoString

from gpuloom.scheduler.metrics.series import Series

CHUNK_SAMPLES = 100

_SPECIAL = re.compile(r'[\\"\n]')
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


async def write_exposition(series: Iterable[Series], registry: CollectorRegistry) -> AsyncIterator[bytes]:
    """Give the text of all series, then that of the registry."""
    for one in series:
        samples, line = iter(one.samples()), _line_of(one)
        yield generate_latest(_Head(one))
        while chunk := list(islice(samples, CHUNK_SAMPLES)):
            yield "".join([_fill_in(line, *sample) for sample in chunk if sample is not None]).encode()
            await asyncio.sleep(0)
    yield generate_latest(registry)


class _Head(CollectorRegistry):
    """One family without samples, in the form in which the library wants it: it writes meaning and kind."""

    def __init__(self, series: Series) -> None:
        super().__init__()
        kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
        self._family = kind(series.name, series.help, labels=series.labels)

    def collect(self) -> Iterable[Metric]:
        """Give the family."""
        return [self._family]


def _line_of(series: Series) -> str:
    """Return a sample's line with places for label values and value.

    Written one by one by the library, samples took more than half of a scrape's time.
    """
    name = f"{series.name}_total" if series.kind == "counter" else series.name
    labels = ",".join(f'{label}="%s"' for label in series.labels)
    return f"{name}{{{labels}}} %s\n" if labels else f"{name} %s\n"


def _fill_in(line: str, labels: tuple[str, ...], value: float) -> str:
    if _SPECIAL.search("".join(labels)):
        labels = tuple(label.translate(_ESCAPES) for label in labels)
    return line % (*labels, floatToGoString(value))  # type: ignore[no-untyped-call]
