"""The pace at which large bodies are received, so that other calls go on beside them (trust T-02).

To receive costs the event loop time as well: what arrives is decrypted and copied, as much at once as the kernel holds.
So the kernel is told to hold little, and a connection is not read while its body waits for its turn.
"""

import asyncio
import socket

from aiohttp import web

REST_S = 0.001
"""Between two pieces of large bodies, of all that come at once."""
PIECE_BYTES = 128 * 1024
"""The kernel holds about so much of a body; its sender waits with the rest."""


class BodyPace:
    """Lets all large bodies of a route be received one piece after another."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def rest(self, request: web.Request) -> None:
        """Let others go first; nothing more of this body is received meanwhile."""
        _pause(request.transport)
        try:
            async with self._turn:
                await asyncio.sleep(REST_S)
        finally:
            _resume(request.transport)


def receive_little(request: web.Request) -> None:
    """Let the kernel hold little of what is sent on a request's connection, from now on."""
    connection = request.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)


def _pause(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.pause_reading()


def _resume(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.resume_reading()
