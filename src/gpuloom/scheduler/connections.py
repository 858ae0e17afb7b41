"""A limit to how long a client may take to send a request's headers, which aiohttp has for idle connections only."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guards:
    """The guards of all connections of one listener, and the middleware that tells them of requests."""

    def __init__(self, timeout_s: float) -> None:
        self.by_transport: dict[asyncio.BaseTransport, HeaderGuard] = {}
        self._timeout_s = timeout_s

    def protect(self, inner: Any) -> "HeaderGuard":
        """Put a guard before a connection's protocol."""
        return HeaderGuard(inner, self.by_transport, self._timeout_s)

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a request; its headers have come."""
        guard = self.by_transport.get(request.transport) if request.transport else None
        if guard is None:
            return await handler(request)
        with guard.request():
            return await handler(request)


class HeaderGuard(asyncio.Protocol):
    """Stands before a connection's protocol and cuts the connection when headers take too long."""

    def __init__(self, inner: Any, guards: dict[asyncio.BaseTransport, "HeaderGuard"], timeout_s: float) -> None:
        self._inner = inner
        self._guards = guards
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        # By duty, not by class: uvloop's transports inherit from nothing of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._guards[transport] = self
        self._start()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Begin to wait with the first byte of a later request."""
        if not self._requests:
            self._start()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        end: bool | None = self._inner.eof_received()
        return end

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        if self._transport is not None:
            self._guards.pop(self._transport, None)
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Serve a request whose headers have come."""
        self._stop()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def _start(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._cut)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()
