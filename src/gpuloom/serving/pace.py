"""The pace at which large bodies are received, so that other calls go on beside them (trust T-02).

To receive costs the event loop time as well: what arrives is decrypted and copied, as much at once as was held for it.
So little is held, and one body is received at a time: senders that wait would otherwise all be heard in one round of
the loop.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

REST_S = 0.001
"""Between two pieces of large bodies, of all that come at once."""
TURN_S = 0.003
"""So long a body keeps its turn while nothing of it comes."""
PIECE_BYTES = 128 * 1024
"""The kernel holds about so much of a body; its sender waits with the rest."""
_ENCRYPTED_BYTES = 64 * 1024
"""Where so much waits to be decrypted, no more is taken from the kernel until half of it is left: more than a record of
TLS (16 KiB), which can be decrypted only as a whole."""


class BodyPace:
    """Lets all large bodies of a route be received one piece after another."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def receive(self, request: web.Request) -> bytes:
        """Return the next piece of a body, empty at its end; of the others, nothing is received meanwhile."""
        while True:
            async with self._turn:
                piece = await _receive_soon(request)
                await asyncio.sleep(REST_S)
            if piece is not None:
                return piece


@contextmanager
def receive_little(request: web.Request) -> Iterator[None]:
    """Receive nothing on a request's connection but in the turns of a pace; little is held of what is sent."""
    transport = request.transport
    connection = request.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
    # Of TLS alone: while such a transport pauses, it goes on until so much waits to be decrypted.
    limit = getattr(transport, "set_read_buffer_limits", None)
    if limit is not None:
        limit(high=_ENCRYPTED_BYTES, low=_ENCRYPTED_BYTES // 2)
    _pause(transport)
    try:
        yield
    finally:
        _resume(transport)


async def _receive_soon(request: web.Request) -> bytes | None:
    """Return what comes within a turn, None where nothing does."""
    _resume(request.transport)
    try:
        async with asyncio.timeout(TURN_S):
            return await request.content.readany()
    except TimeoutError:
        return None
    finally:
        # After its body, whoever hangs up must be heard.
        if not request.content.is_eof():
            _pause(request.transport)


def _pause(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.pause_reading()


def _resume(transport: asyncio.Transport | None) -> None:
    if transport is not None and not transport.is_closing():
        transport.resume_reading()
