"""Listeners: addresses, certificates, limits and their end. What is answered is in the routes."""

import asyncio
import ipaddress
import ssl
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import web

from gpuloom.scheduler.binding import CLOSING_S
from gpuloom.scheduler.connections import Guards

BODY_LIMIT_BYTES = 16 * 2**20
HEADER_TIMEOUT_S = 15.0
"""So long a client may take to send a request's headers (scheduler 0.2)."""
KEEP_ALIVE_S = 300.0
"""kube-scheduler's idle connections must outlive quiet minutes: a new one costs more than an answer."""


class ServerError(Exception):
    """The server cannot start; the message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and the flag that says so. An empty host means all interfaces, port 0 a free one."""

    flag: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine, or this pod, can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def split_address(flag: str, text: str) -> Address:
    """Split the ``host:port`` of a flag.

    Raises ServerError when it is not of that form.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ServerError(f"{flag} {text!r} is not host:port, for example 127.0.0.1:8080")
    return Address(flag, host.strip("[]"), int(port))


async def listen(
    stack: AsyncExitStack, address: Address, routes: Iterable[web.AbstractRouteDef], tls: ssl.SSLContext | None
) -> str:
    """Serve until the stack closes; returns the URL.

    Closing takes no new request and lets those under way come to their end. Raises ServerError when the address cannot
    be used.
    """
    guards = Guards(HEADER_TIMEOUT_S)
    app = web.Application(client_max_size=BODY_LIMIT_BYTES, middlewares=[guards.watch])
    app.add_routes(routes)
    # A caller who hangs up cancels its handler, and a Bind of it stops waiting.
    runner = web.AppRunner(
        app,
        keepalive_timeout=KEEP_ALIVE_S,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=CLOSING_S,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    server = await _open(runner, guards, address, tls)
    stack.callback(server.close)
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if tls else 'http'}://{host or '127.0.0.1'}:{server.sockets[0].getsockname()[1]}"


async def _open(runner: web.AppRunner, guards: Guards, address: Address, tls: ssl.SSLContext | None) -> asyncio.Server:
    connect = runner.server
    if connect is None:
        raise RuntimeError("the runner is not set up")
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: guards.protect(connect()), address.host or None, address.port, ssl=tls, backlog=128
        )
    except OSError as error:
        raise ServerError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror or error}; choose another {address.flag}"
        ) from error
