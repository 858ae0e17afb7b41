"""Opening a listener: the one way in which a process of gpuloom answers HTTP."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gpuloom.serving.addresses import Address, CannotServeError
from gpuloom.serving.connections import Connections, Limits

CLOSING_S = 5.0
"""How long requests under way may take when a listener closes."""
_STANDARD = Limits()
_BACKLOG = 128
_LARGEST_UNNAMED = 16_384
"""Largest body where a route names no limit."""
_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


@dataclass(frozen=True, slots=True)
class Listening:
    """An open listener."""

    url: str
    connections: Connections


async def listen(
    stack: AsyncExitStack,
    address: Address,
    routes: Iterable[web.AbstractRouteDef],
    tls: ssl.SSLContext | None,
    *,
    limits: Limits = _STANDARD,
    closing_s: float = CLOSING_S,
) -> Listening:
    """Serve until the stack closes.

    Closing takes no new request and lets those under way come to their end. Raises CannotServeError when the address
    cannot be used.
    """
    connections = Connections(limits, tls)
    app = web.Application(client_max_size=_LARGEST_UNNAMED, middlewares=[connections.watch])
    app.add_routes(routes)
    # When a caller hangs up, its handler is cancelled, so that a Bind stops waiting. Packed bodies could become very
    # large.
    runner = web.AppRunner(
        app,
        keepalive_timeout=limits.idle_s,
        lingering_time=limits.linger_s,
        auto_decompress=False,
        read_bufsize=limits.unread,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=closing_s,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if (connect := runner.server) is None:
        raise RuntimeError("the runner is not set up")
    sockets = _bind(address)
    accepting = asyncio.gather(*(connections.accept(one, connect) for one in sockets))
    stack.push_async_callback(_stop, accepting, sockets, connections)
    return Listening(address.url(sockets[0].getsockname()[1], is_tls=tls is not None), connections)


async def _stop(
    accepting: "asyncio.Future[list[None]]", sockets: Iterable[socket.socket], connections: Connections
) -> None:
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    await connections.end_opening()
    for one in sockets:
        one.close()


def _bind(address: Address) -> list[socket.socket]:
    """Open a socket for each address of the host; with port 0, all on the port of the first."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in found:
            port = sockets[0].getsockname()[1] if sockets else address.port
            try:
                sockets.append(_open(family, (place[0], port, *place[2:])))
            except OSError as error:
                # A machine may know an address family that is switched off.
                if error.errno not in _NO_SUCH_FAMILY or len(found) == 1:
                    raise
    except OSError as error:
        for one in sockets:
            one.close()
        raise CannotServeError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror or error}; choose another {address.flag}"
        ) from error
    if not sockets:
        raise CannotServeError(f"cannot listen on {address.host}:{address.port}: this machine has no such address")
    return sockets


def _open(family: int, place: tuple[Any, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(place)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened
