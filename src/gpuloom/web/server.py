"""The listener of the pages and their API, beside a scheduler process (binding 6)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

import structlog

from gpuloom.kube import KubeClient
from gpuloom.scheduler.parts import Parts
from gpuloom.serving.addresses import ServerError, split_address
from gpuloom.serving.listener import listen
from gpuloom.serving.presented import Presented
from gpuloom.serving.rights import Rights
from gpuloom.web.api import Api
from gpuloom.web.dashboard.routes import Dashboard
from gpuloom.web.entrance import Entrance
from gpuloom.web.pages import Pace
from gpuloom.web.sessions import Sessions
from gpuloom.web.views.source import Source

WebError = ServerError
"""The listener cannot start; the message names the flag."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Where to listen: ``host:port``, port 0 for a free one."""

    web_bind: str


class WebPart:
    """The pages of one scheduler; an async context manager. ``url`` says where they are.

    ``client`` asks the API server about people. ``presented`` is the scheduler's certificate, which it keeps fresh;
    without one only the loopback interface will do.
    """

    def __init__(
        self, settings: WebSettings, parts: Parts, client: KubeClient, presented: Presented | None = None
    ) -> None:
        self.url = ""
        self._settings = settings
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
            api = Api(self._source, self._rights, Entrance(Sessions(), is_tls=tls is not None), self._pace())
            dashboard = Dashboard(api)
            listening = await listen(stack, address, [*api.routes(), *dashboard.routes()], tls)
            self._source.parts.doors.connections["web"] = listening.connections
            self.url = listening.url
            stack.push_async_callback(dashboard.close)
            self._stack = stack.pop_all()
        _log.info("pages served", url=self.url)
        return self

    def _pace(self) -> Pace:
        latencies = self._source.parts.latencies
        return Pace(lambda: latencies.underway > 0)

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()
