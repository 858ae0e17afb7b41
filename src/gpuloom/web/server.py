"""The listener of the pages and their API, beside a scheduler process (binding 6)."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

import structlog

from gpuloom.kube import KubeClient
from gpuloom.scheduler.parts import Parts
from gpuloom.serving.addresses import CannotServeError, split_address
from gpuloom.serving.listener import listen
from gpuloom.serving.presented import Presented
from gpuloom.serving.rights import Rights
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.routes import Dashboard
from gpuloom.web.entrance import Entrance
from gpuloom.web.monitors.asking import MonitorClient, MonitorSource
from gpuloom.web.monitors.book import STEP_S
from gpuloom.web.monitors.round import MonitorRounds
from gpuloom.web.pacing import Pace
from gpuloom.web.sessions import Sessions
from gpuloom.web.stranded import POINTS_OF_USE, ROUND_S, follow
from gpuloom.web.views.source import Source

WebError = CannotServeError
"""The listener cannot start; the message names the flag."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Where to listen: ``host:port``, port 0 for a free one; how often monitors are asked, 0 for never, and how.

    ``point_s`` is how far apart points of the last hour are; those of what is stranded are six times as far apart.
    """

    web_bind: str
    monitor_interval_s: float = 0.0
    monitor_token_file: str = ""
    point_s: float = STEP_S


class WebPart:
    """The pages of one scheduler; an async context manager. ``url`` says where they are.

    ``client`` asks the API server about people. ``presented`` is the scheduler's certificate, which it keeps fresh;
    without one only the loopback interface will do. ``monitors`` are asked in place of those that are found.
    """

    def __init__(
        self,
        settings: WebSettings,
        parts: Parts,
        client: KubeClient,
        presented: Presented | None = None,
        monitors: MonitorSource | None = None,
    ) -> None:
        self.url = ""
        self._settings = settings
        self._client = client
        self._monitors = monitors
        self._source = Source(parts)
        self._rights = Rights(client.with_own_budget())
        self._presented = presented
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start to serve.

        Raises WebError when the address cannot be used.
        """
        address = split_address("--web-bind", self._settings.web_bind)
        if self._presented is None and not address.is_loopback:
            raise WebError(
                f"--web-bind {self._settings.web_bind} can be reached from outside and people send their tokens "
                "there: give the scheduler a certificate, or listen on 127.0.0.1"
            )
        tls = self._presented.context if self._presented else None
        async with AsyncExitStack() as stack:
            api = WebApi(self._source, self._rights, Entrance(Sessions(), is_tls=tls is not None), self._pace())
            dashboard = Dashboard(api)
            listening = await listen(stack, address, [*api.routes(), *dashboard.routes()], tls)
            self._source.parts.listeners.connections["web"] = listening.connections
            self.url = listening.url
            stack.push_async_callback(dashboard.close)
            self._start_looking(stack, api.pace)
            await self._start_rounds(stack, api.pace)
            self._stack = stack.pop_all()
        _log.info("pages served", url=self.url)
        return self

    def _start_looking(self, stack: AsyncExitStack, pace: Pace) -> None:
        """Look from now on at what is stranded."""
        book, parts, point_s = self._source.stranded, self._source.parts, self._settings.point_s
        book.point_s = POINTS_OF_USE * point_s
        looking = follow(book, parts.state, pace, min(point_s, ROUND_S), parts.clocks.sleep)
        stack.push_async_callback(_end, asyncio.create_task(looking))

    async def _start_rounds(self, stack: AsyncExitStack, pace: Pace) -> None:
        """Ask monitors from now on, if that is wanted."""
        interval_s, parts = self._settings.monitor_interval_s, self._source.parts
        if not interval_s:
            return
        book = self._source.book
        book.clock, book.step_s = lambda: parts.clocks.now().timestamp(), self._settings.point_s
        book.is_on = True
        book.why_not = "monitors have not been asked yet"
        monitors = self._monitors
        if monitors is None:
            namespace = parts.state.settings.pod_namespace
            if not namespace:
                raise WebError("--monitor-interval needs to know in which namespace monitors are: set POD_NAMESPACE")
            client = MonitorClient(self._client.with_own_budget(), namespace, self._settings.monitor_token_file)
            monitors = await stack.enter_async_context(client)
        rounds = asyncio.create_task(MonitorRounds(self._source, monitors, pace, interval_s).run())
        stack.push_async_callback(_end, rounds)

    def _pace(self) -> Pace:
        latencies = self._source.parts.latencies
        return Pace(lambda: latencies.underway > 0)

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
