"""The connections of one listener: how many there may be, and how long headers may take.

aiohttp limits neither: it limits only idle connections. Connections count from the moment they are accepted, also when
they never end their TLS handshake.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LINGER_S = 5.0
LONGEST_HEADERS = 2**20
"""Of a request whose headers have not ended; each of them is limited by aiohttp."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a listener for its connections.

    most         connections at a time; beyond them, the oldest idle one ends, of the address with most connections
    most_of_one  connections from one address at a time
    header_s     how long a TLS handshake may take, and after it the headers of a request (scheduler 0.2)
    idle_s       how long a connection may wait for its next request
    linger_s     how long the rest of a request is received unread after its answer, so that the sender reads the answer
    unread       half of the bytes of a body that may wait to be read; the sender waits with the rest
    """

    most: int = 1024
    most_of_one: int = 768
    header_s: float = 15.0
    idle_s: float = 300.0
    linger_s: float = LINGER_S
    unread: int = 32 * 1024


class Connections:
    """All connections of one listener."""

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self.limits = limits
        self.refused = 0
        """How many connections were refused, or ended to accept others."""
        self._tls = tls
        self.open: dict[Connection, None] = {}
        self._by_transport: dict[asyncio.BaseTransport, Connection] = {}
        self._by_peer: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.open)

    async def accept(self, listening: socket.socket, connect: Callable[[], Any]) -> None:
        """Accept connections until cancelled; ``connect`` makes the protocol of each."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        while True:
            loop.add_reader(listening, arrived.set)
            try:
                await arrived.wait()
            finally:
                loop.remove_reader(listening)
            arrived.clear()
            try:
                # Not by the loop: what it has accepted when this is cancelled would be lost, and stay open.
                accepted, address = listening.accept()
            except OSError:
                # The peer is gone already, or this process has no descriptor left until other connections end.
                await asyncio.sleep(0.05)
                continue
            accepted.setblocking(False)
            peer = address[0] if isinstance(address, tuple) else ""
            if self._makes_room(peer):
                self._take(accepted, Connection(self, connect(), peer))
            else:
                self.refused += 1
                accepted.close()

    async def end_opening(self) -> None:
        """End the connections that are not open yet, of which no server knows."""
        opening = [one.opening for one in self.open if one.transport is None and one.opening is not None]
        for one in opening:
            one.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def note(self, transport: asyncio.BaseTransport, connection: "Connection") -> None:
        """Count a connection, known by its transport."""
        self._by_transport[transport] = connection

    def forget(self, connection: "Connection") -> None:
        """Stop counting a connection."""
        if connection in self.open:
            del self.open[connection]
            self._by_peer[connection.peer] -= 1
            if not self._by_peer[connection.peer]:
                del self._by_peer[connection.peer]
        if connection.transport is not None:
            self._by_transport.pop(connection.transport, None)

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a request whose headers have arrived."""
        connection = self._by_transport.get(request.transport) if request.transport else None
        if connection is None:
            return await handler(request)
        connection.begin_request(request)
        try:
            return await handler(request)
        finally:
            connection.end_request(has_more=not request.content.is_eof())

    def _take(self, accepted: socket.socket, connection: "Connection") -> None:
        loop = asyncio.get_running_loop()
        self.open[connection] = None
        self._by_peer[connection.peer] += 1
        handshake = {"ssl_handshake_timeout": self.limits.header_s} if self._tls else {}
        made = loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, **handshake)
        connection.opening = asyncio.ensure_future(made)
        connection.opening.add_done_callback(partial(_settle, connection, accepted))

    def _makes_room(self, peer: str) -> bool:
        if self._by_peer[peer] >= self.limits.most_of_one:
            return self._end_idle(peer)
        return len(self.open) < self.limits.most or self._end_idle(self._by_peer.most_common(1)[0][0])

    def _end_idle(self, peer: str) -> bool:
        """End the oldest connection of a peer without a whole request under way; tell whether there was one."""
        for one in self.open:
            if one.peer == peer and not one.is_asking:
                self.refused += 1
                one.end()
                return True
        return False


def _settle(connection: "Connection", accepted: socket.socket, opening: "asyncio.Future[Any]") -> None:
    error = None if opening.cancelled() else opening.exception()
    if error is None and not opening.cancelled():
        return
    connection.connections.forget(connection)
    accepted.close()
    # A handshake that failed or did not end in time concerns nobody else.
    if error is not None and not isinstance(error, (OSError, TimeoutError)):
        raise error


class Connection(asyncio.Protocol):
    """Stands before a connection's protocol and cuts the connection when headers take too long."""

    def __init__(self, connections: Connections, inner: Any, peer: str) -> None:
        self.connections = connections
        self.peer = peer
        self.opening: asyncio.Future[Any] | None = None
        self.transport: asyncio.Transport | None = None
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since_s: float | None = None
        self._unread = 0
        self._requests = 0
        self._has_more = False
        self._request: web.Request | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request has arrived with all of its body, and its answer is not sent yet."""
        return self._request is not None and self._request.content.is_eof()

    def end(self) -> None:
        """End the connection at once."""
        self.connections.forget(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        # Not checked by class: uvloop's transports do not inherit from those of asyncio.
        self.transport = cast(asyncio.Transport, transport)
        self.connections.note(transport, self)
        self._wait_for_headers()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Start the timer with the first byte of a later request."""
        if not self._requests:
            if self._waiting_since_s is None:
                self._wait_for_headers()
            self._unread += 0 if self._has_more else len(data)
            if self._unread > LONGEST_HEADERS and self.transport is not None:
                self.transport.abort()
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        end: bool | None = self._inner.eof_received()
        return end

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
        self.connections.forget(self)
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()

    def begin_request(self, request: web.Request) -> None:
        """Serve a request whose headers have arrived."""
        self._request = request
        self._waiting_since_s = None
        self._unread = 0
        self._requests += 1

    def end_request(self, *, has_more: bool) -> None:
        """Note that a request was answered; with ``has_more``, more of its body is to come, which nobody reads."""
        self._requests -= 1
        self._request = None
        self._has_more = has_more

    def _wait_for_headers(self) -> None:
        self._waiting_since_s = self._loop.time()
        # A timer for every request would cost as much as reading its headers, so this one goes on running when they
        # arrive.
        if self._timer is None:
            self._timer = self._loop.call_later(self.connections.limits.header_s, self._look)

    def _look(self) -> None:
        """Cut the connection if its headers are late; otherwise look again when they would be."""
        self._timer = None
        if self._waiting_since_s is None:
            return
        left_s = self._waiting_since_s + self.connections.limits.header_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        elif self.transport is not None:
            self.transport.abort()
