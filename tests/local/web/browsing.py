"""A real browser before a dashboard."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from local.web.pages import Pages
from playwright.async_api import Browser, Page, expect


@dataclass
class Window:
    """One person's browser; ``outside`` are addresses asked that are not the dashboard's, ``faults`` its script's."""

    pages: Pages
    page: Page
    outside: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    async def open(self, path: str) -> int:
        reply = await self.page.goto(self.pages.part.url + path)
        assert reply is not None
        return reply.status

    async def sign_in(self, token: str = "", path: str = "/") -> None:
        """Sign in and wait for the page that follows: what is done before, the form still gets."""
        await self.open(path)
        await self.page.get_by_label("Token").fill(token or self.pages.site.server.token)
        async with self.page.expect_event("load"):
            await self.page.get_by_role("button", name="Sign in").click()

    async def wait_live(self) -> None:
        """Wait until the page is told of changes."""
        await expect(self.page.get_by_role("status").first).to_have_text("live")

    async def see(self, text: str | re.Pattern[str]) -> None:
        await expect(self.page.locator("main")).to_contain_text(text)

    @property
    def title(self) -> Any:
        return self.page.get_by_role("heading", level=1)


@asynccontextmanager
async def open_window(pages: Pages, browser: Browser, **options: Any) -> AsyncIterator[Window]:
    context = await browser.new_context(**options)
    window = Window(pages, await context.new_page())
    window.page.on("request", lambda sent: _note_outside(window, sent.url))
    window.page.on("pageerror", lambda error: window.faults.append(str(error)))
    window.page.on("console", lambda said: window.faults.append(said.text) if said.type == "error" else None)
    window.page.set_default_timeout(30_000)
    yield window
    await context.close()


def _note_outside(window: Window, url: str) -> None:
    if not url.startswith(window.pages.part.url):
        window.outside.append(url)
