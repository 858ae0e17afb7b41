"""Answer scrapes: the text is written once for all who ask within a second (trust T-10)."""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

FRESH_S = 1.0

Pages = list[bytes]


class Scrapes:
    """One text, made when somebody asks and forgotten a second later: in a large cluster it is very long."""

    def __init__(self, write: Callable[[], AsyncIterator[bytes]]) -> None:
        self._write = write
        self._making: asyncio.Task[Pages] | None = None

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
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        # The first caller may go away; the text is for all who wait for it.
        return await asyncio.shield(self._making)

    async def _make(self) -> Pages:
        try:
            return [page async for page in self._write()]
        finally:
            asyncio.get_running_loop().call_later(FRESH_S, self._forget)

    def _forget(self) -> None:
        self._making = None
