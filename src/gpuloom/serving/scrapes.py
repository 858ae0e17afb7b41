"""Answering scrapes: written once for all who ask within a second (trust T-10)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

FRESH_S = 1.0

Pages = list[bytes]


class Scrapes:
    """One text, made when somebody asks and the last one is not of this second."""

    def __init__(self, write: Callable[[], AsyncIterator[bytes]], clock: Callable[[], float] = time.monotonic) -> None:
        self.written = 0
        """How often the text was made."""
        self._write = write
        self._clock = clock
        self._making: asyncio.Future[Pages] | None = None
        self._stale_s = 0.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one scrape."""
        pages = await self._pages()
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
        response.content_length = sum(map(len, pages))
        await response.prepare(request)
        for page in pages:
            await response.write(page)
        await response.write_eof()
        return response

    async def _pages(self) -> Pages:
        making = self._making
        if making is None or (making.done() and (self._clock() >= self._stale_s or making.cancelled())):
            making = self._making = asyncio.ensure_future(self._make())
        # Whoever asked first may go away; the text is for all who wait for it.
        return await asyncio.shield(making)

    async def _make(self) -> Pages:
        self.written += 1
        try:
            return [page async for page in self._write()]
        finally:
            self._stale_s = self._clock() + FRESH_S
