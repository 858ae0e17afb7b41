"""The pages of a scheduler, asked without a browser."""

from dataclasses import dataclass
from typing import Any

import aiohttp
from local.scheduler.site import Site

from gpuloom.web.server import WebPart


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
