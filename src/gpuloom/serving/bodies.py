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


Rest = Callable[[], Awaitable[object]]


async def _never_rest() -> None:
    """Do not pause between pieces."""


async def read_body(request: web.Request, most_bytes: int, within_s: float, rest: Rest = _never_rest) -> bytes:
    """Return a whole body; ``rest`` is awaited after each piece, and the sender waits meanwhile.

    Raises TooLargeError without reading the rest, HTTPRequestTimeout when it does not arrive in time.
    """
    # Most bodies come with their headers: they need no timer, which costs more than reading them.
    if request.content.is_eof():
        return await _read(request, most_bytes, rest)
    try:
        async with asyncio.timeout(within_s):
            return await _read(request, most_bytes, rest)
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="the request body did not arrive in time") from error


async def _read(request: web.Request, most_bytes: int, rest: Rest) -> bytes:
    if (request.content_length or 0) > most_bytes:
        raise TooLargeError(await request.content.readany(), most_bytes)
    chunks, size = [], 0
    while chunk := await request.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > most_bytes:
            raise TooLargeError(chunks[0], most_bytes)
        await rest()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
