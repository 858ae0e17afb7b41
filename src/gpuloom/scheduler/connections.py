"""A limit to how long a client may take to send a request's headers, which aiohttp has for idle connections only."""

import asyncio
from collections.abc import Awaitable, Callable
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
        guard.begin_request()
        try:
            return await handler(request)
        finally:
            guard.end_request()


class HeaderGuard(asyncio.Protocol):
    """Stands before a connection's protocol and cuts the connection when headers take too long."""

    def __init__(self, inner: Any, guards: dict[asyncio.BaseTransport, "HeaderGuard"], timeout_s: float) -> None:
        self._inner = inner
        self._guards = guards
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since_s: float | None = None
        self._requests = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        # By duty, not by class: uvloop's transports inherit from nothing of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._guards[transport] = self
        self._wait_for_headers()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Begin to wait with the first byte of a later request."""
        if not self._requests and self._waiting_since_s is None:
            self._wait_for_headers()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        end: bool | None = self._inner.eof_received()
        return end

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._guards.pop(self._transport, None)
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()

    def begin_request(self) -> None:
        """Serve a request: its headers have come."""
        self._waiting_since_s = None
        self._requests += 1

    def end_request(self) -> None:
        """Note that a request was answered."""
        self._requests -= 1

    def _wait_for_headers(self) -> None:
        self._waiting_since_s = self._loop.time()
        # A timer for every request would cost as much as reading its headers: this one runs on when they have come.
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look)

    def _look(self) -> None:
        """Cut the connection if its headers are late, and look again when they would be."""
        self._timer = None
        if self._waiting_since_s is None:
            return
        left_s = self._waiting_since_s + self._timeout_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        elif self._transport is not None:
            self._transport.abort()
