"""Writing metrics for Prometheus, a page at a time: a large cluster has hundreds of thousands of samples.

Between two pages calls are answered, so samples of one reply may be some milliseconds apart.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from gpuloom.scheduler.metrics import Series

PAGE_SAMPLES = 100


async def write_pages(series: Iterable[Series], registry: CollectorRegistry) -> AsyncIterator[bytes]:
    """Give the text of all series, then that of the registry."""
    for one in series:
        samples = iter(one.samples())
        head = generate_latest(_Page(_family(one)))
        yield head
        while page := list(islice(samples, PAGE_SAMPLES)):
            family = _family(one)
            for labels, value in page:
                family.add_metric(labels, value)
            yield generate_latest(_Page(family))[len(head) :]
            await asyncio.sleep(0)
    yield generate_latest(registry)


async def answer_metrics(
    request: web.Request, series: Iterable[Series], registry: CollectorRegistry
) -> web.StreamResponse:
    """Answer a scrape."""
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
    await response.prepare(request)
    async for page in write_pages(series, registry):
        await response.write(page)
    await response.write_eof()
    return response


class _Page(CollectorRegistry):
    """One family, in the form in which the library wants it."""

    def __init__(self, family: Metric) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterable[Metric]:
        """Give the family."""
        return [self._family]


def _family(series: Series) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    return kind(series.name, series.help, labels=series.labels)
