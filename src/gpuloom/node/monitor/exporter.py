"""The listener for Prometheus. It answers from the last snapshot and reads no file and no driver itself."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from gpuloom.node.monitor.errors import ListenError
from gpuloom.node.monitor.families import MetricFamily, ScrapeData
from gpuloom.node.monitor.reports import write_report
from gpuloom.serving.addresses import CannotServeError, split_address
from gpuloom.serving.admittance import admit
from gpuloom.serving.connections import Limits
from gpuloom.serving.listener import listen
from gpuloom.serving.rights import Rights
from gpuloom.serving.scrapes import Scrapes
from gpuloom.serving.selfsigned import present_own
from gpuloom.wire.monitors import REPORT_PATH

FLAG = "--metrics-bind-address"
_ZONE = "vGPU"
_CLOSING_S = 2.0
_LIMITS = Limits(most=128, most_of_one=64)
_OF_CARDS = frozenset({"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio"})
"""What ``gpuloom top`` reads through the API server: only about cards, without names of pods."""


class Exporter:
    """Serves metrics, the report and ``/healthz`` inside its ``async with`` block; ``url`` is known there.

    With ``rights`` it serves HTTPS, and ``/metrics`` only for those whose token may get it; the report likewise, by
    ``rights_of_schedulers``. Creating and entering one raise ListenError when the address cannot be used.
    """

    def __init__(
        self,
        bind_address: str,
        families: Sequence[MetricFamily],
        take: Callable[[], ScrapeData],
        rights: Rights | None = None,
        rights_of_schedulers: Rights | None = None,
    ) -> None:
        self.url = ""
        try:
            self._address = split_address(FLAG, bind_address)
        except CannotServeError as error:
            raise ListenError(str(error)) from error
        self._families = families
        self._take = take
        self._rights = rights
        self._rights_of_schedulers = rights_of_schedulers
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        scrape = Scrapes(lambda: self._write(self._families)).answer
        report = Scrapes(self._report).answer
        schedulers = self._rights_of_schedulers
        of_cards = [family for family in self._families if family.name in _OF_CARDS]
        routes = [
            web.get("/metrics", admit(self._rights, "/metrics", scrape) if self._rights else scrape),
            web.get("/metrics/cards", Scrapes(lambda: self._write(of_cards)).answer),
            web.get(REPORT_PATH, admit(schedulers, REPORT_PATH, report) if schedulers else report),
            web.get("/healthz", _answer_health),
        ]
        tls = present_own().context if self._rights else None
        async with AsyncExitStack() as stack:
            try:
                listening = await listen(stack, self._address, routes, tls, limits=_LIMITS, closing_s=_CLOSING_S)
            except CannotServeError as error:
                raise ListenError(str(error)) from error
            self.url = listening.url
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _write(self, families: Iterable[MetricFamily]) -> AsyncIterator[bytes]:
        yield render(families, self._take())

    async def _report(self) -> AsyncIterator[bytes]:
        yield write_report(self._take())


async def _answer_health(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def render(families: Iterable[MetricFamily], snapshot: ScrapeData) -> bytes:
    """Write all samples of a snapshot in Prometheus' text format; every sample has HAMi's constant label."""
    return generate_latest(_Collected(_collect(family, snapshot) for family in families))


class _Collected(CollectorRegistry):
    """Families in the form in which the library writes them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


def _collect(family: MetricFamily, snapshot: ScrapeData) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=(*family.labels, "zone"))
    for labels, value in family.samples(snapshot):
        metric.add_metric((*labels, _ZONE), value)
    return metric
