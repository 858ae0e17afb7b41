"""Read bodies: never more than a route accepts, and never for longer than it waits."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web


class TooLargeError(Exception):
    """The body is larger than the route accepts; ``beginning`` is what was read of it first."""

    def __init__(self, beginning: bytes, most_bytes: int) -> None:
        super().__init__("request body too large")
        self.beginning = beginning
        self.most_bytes = most_bytes


Receive = Callable[[], Awaitable[bytes]]
"""Returns the next piece of a body, empty at its end."""


async def read_body(request: web.Request, most_bytes: int, within_s: float) -> bytes:
    """Return a whole body.

    Raises TooLargeError without reading the rest, HTTPRequestTimeout when it does not arrive in time.
    """
    pieces = await read_pieces(request, most_bytes, within_s, request.content.readany)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def read_pieces(request: web.Request, most_bytes: int, within_s: float, receive: Receive) -> list[bytes]:
    """Return a body in the pieces in which it is received.

    Raises TooLargeError without reading the rest, HTTPRequestTimeout when it does not arrive in time.
    """
    # Most bodies come with their headers: they need no timer, which costs more than reading them.
    if request.content.is_eof():
        return await _read(request, most_bytes, receive)
    try:
        async with asyncio.timeout(within_s):
            return await _read(request, most_bytes, receive)
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="the request body did not arrive in time") from error


async def drop_body(request: web.Request, within_s: float, receive: Receive) -> None:
    """Receive what is left of a body and keep nothing of it.

    Whoever is still sending reads an answer only then. Who takes longer is cut off.
    """
    try:
        async with asyncio.timeout(within_s):
            while await receive():
                pass
    except TimeoutError:
        request.protocol.force_close()


async def _read(request: web.Request, most_bytes: int, receive: Receive) -> list[bytes]:
    if (request.content_length or 0) > most_bytes:
        raise TooLargeError(await receive(), most_bytes)
    pieces: list[bytes] = []
    size = 0
    while piece := await receive():
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise TooLargeError(pieces[0], most_bytes)
    return pieces
