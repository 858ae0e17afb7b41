"""The listener for Prometheus. It answers from the last snapshot and reads no file and no driver itself."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from gpuloom.node.monitor.errors import ListenError
from gpuloom.node.monitor.families import Family, Snapshot

FLAG = "--metrics-bind-address"
_ZONE = "vGPU"
_CLOSING_S = 2.0


class Exporter:
    """Serves ``/metrics`` and ``/healthz`` inside its ``async with`` block; ``url`` is known there.

    Entering raises ListenError when the address cannot be used.
    """

    def __init__(self, bind_address: str, families: Sequence[Family], take: Callable[[], Snapshot]) -> None:
        self.url = ""
        self._host, self._port = _split(bind_address)
        self._families = families
        self._take = take
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.add_routes([web.get("/metrics", self._answer_metrics), web.get("/healthz", self._answer_health)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host or None, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise ListenError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}; choose another {FLAG}"
            ) from error
        port = self._runner.addresses[0][1]
        self.url = f"http://{f'[{self._host}]' if ':' in self._host else self._host or '127.0.0.1'}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        del request
        text = render(self._families, self._take())
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _answer_health(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok")


def render(families: Iterable[Family], snapshot: Snapshot) -> bytes:
    """Write all samples of a snapshot in Prometheus' text format; every sample has HAMi's constant label."""
    return generate_latest(_Collected(_collect(family, snapshot) for family in families))


class _Collected(CollectorRegistry):
    """Families in the form in which the library writes them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Give the families."""
        return self._families


def _collect(family: Family, snapshot: Snapshot) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=(*family.labels, "zone"))
    for labels, value in family.samples(snapshot):
        metric.add_metric((*labels, _ZONE), value)
    return metric


def _split(address: str) -> tuple[str, int]:
    """Split ``host:port``; no host means all interfaces, port 0 a free one."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ListenError(f"{FLAG} {address!r} is not host:port, for example :9394")
    return host.strip("[]"), int(port)
