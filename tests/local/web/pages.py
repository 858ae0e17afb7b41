"""The pages of a scheduler, asked without a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from local.scheduler.site import DEFAULTS, Site, open_site

from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.web.server import WebPart, WebSettings


@dataclass
class Pages:
    """``get`` and ``post`` ask the API; ``who`` is a token."""

    site: Site
    part: WebPart
    session: aiohttp.ClientSession

    async def get(self, path: str, *, who: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {who or self.site.server.token}"}
        async with self.session.get(f"{self.part.url}/api/v1{path}", headers=headers) as reply:
            return reply.status, await reply.json(content_type=None)

    async def see(self, path: str, *, who: str = "") -> Any:
        status, value = await self.get(path, who=who)
        assert status == 200, value
        return value

    async def read(self, path: str, *, who: str = "", expect: int = 200) -> str:
        """Return the HTML of a page."""
        headers = {"Authorization": f"Bearer {who or self.site.server.token}"}
        async with self.session.get(f"{self.part.url}{path}", headers=headers) as reply:
            assert reply.status == expect, await reply.text()
            return await reply.text()

    async def post(self, path: str, body: Any, *, who: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {who or self.site.server.token}"}
        async with self.session.post(f"{self.part.url}/api/v1{path}", json=body, headers=headers) as reply:
            return reply.status, await reply.json()


@asynccontextmanager
async def open_pages(directory: Path, settings: SchedulerSettings = DEFAULTS) -> AsyncIterator[Pages]:
    """Open the pages of one node with one card of 10,000 MiB."""
    async with open_site(directory) as site:
        await site.start(settings)
        await site.process.wait_synced()
        await site.register("n1")
        async with (
            WebPart(WebSettings(web_bind="127.0.0.1:0"), site.process.parts, site.client) as part,
            aiohttp.ClientSession() as session,
        ):
            yield Pages(site, part, session)
