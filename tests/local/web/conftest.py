"""A scheduler with its pages beside a local API server, and people with and without rights."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from local.scheduler.site import Site, open_site

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

    async def post(self, path: str, body: Any, *, who: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {who or self.site.server.token}"}
        async with self.session.post(f"{self.part.url}/api/v1{path}", json=body, headers=headers) as reply:
            return reply.status, await reply.json()


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    """One node with one card of 10,000 MiB."""
    async with open_site(tmp_path) as site:
        await site.start()
        await site.process.wait_synced()
        await site.register("n1")
        settings = WebSettings(web_bind="127.0.0.1:0")
        async with (
            WebPart(settings, site.process.parts, site.client) as part,
            aiohttp.ClientSession() as session,
        ):
            yield Pages(site, part, session)
