"""Takes the pictures of docs/dashboard.md with Debian's Chromium: ``.venv/bin/python tools/screenshots.py [FOLDER]``.

The clusters are the ones of the dashboard's tests: a small one, and one of 1,000 nodes; 1,000 nodes take a minute.
"""

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from playwright.async_api import Browser, Page, async_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from local.scheduler.site import Site, open_site  # noqa: E402
from local.web.scenes import set_large_scene, set_small_scene  # noqa: E402

from gpuloom.web.server import WebPart, WebSettings  # noqa: E402

WIDTH, HEIGHT = 1400, 800
PHONE_WIDTH = 390
MOST_HIGH = 1400

SMALL = {
    "overview": "/",
    "nodes": "/nodes",
    "node": "/nodes/node-c",
    "card": "/cards/GPU-node-a-0003-4000-8000",
    "pods": "/pods?sort=-memory",
    "pending": "/pending",
    "pod": "/pods/default/train-wide",
    "quotas": "/quotas",
    "decisions": "/decisions",
    "decision": "/decisions/5",
}
SMALL_DARK = {"overview-dark": "/", "pod-dark": "/pods/default/train-wide"}
SMALL_PHONE = {"node-phone": "/nodes/node-c"}
LARGE = {"overview-1000": "/", "nodes-1000": "/nodes?show=trouble"}
LARGE_DARK = {"overview-1000-dark": "/"}


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[tuple[Site, str]]:
    """Run a scheduler with its pages beside a local API server."""
    async with open_site(folder) as site:
        await site.start()
        await site.process.wait_synced()
        settings = WebSettings(web_bind="127.0.0.1:0")
        async with WebPart(settings, site.process.parts, site.client) as part:
            yield site, part.url


@asynccontextmanager
async def signed_in(browser: Browser, url: str, token: str, scheme: Any, width: int = WIDTH) -> AsyncIterator[Page]:
    """Open a window that is signed in."""
    context = await browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
    page = await context.new_page()
    await page.goto(url)
    await page.fill("#token", token)
    await page.click("button.main")
    await page.wait_for_selector("nav[aria-label=Pages]")
    yield page
    await context.close()


async def picture(page: Page, target: Path, width: int = WIDTH) -> None:
    """Take a picture of the whole page, cut at the bottom if it is long."""
    if await page.locator("[data-stream]").count():
        await page.locator("[data-kind=on]").wait_for()
    high = await page.evaluate("document.querySelector('main').getBoundingClientRect().bottom + window.scrollY")
    await page.set_viewport_size({"width": width, "height": min(max(int(high), 400), MOST_HIGH)})
    await page.screenshot(path=target)
    await page.set_viewport_size({"width": width, "height": HEIGHT})


async def take(
    browser: Browser, site: Site, url: str, scheme: str, pages: dict[str, str], folder: Path, width: int = WIDTH
) -> None:
    """Take the pictures of some pages."""
    async with signed_in(browser, url, site.server.token, scheme, width) as page:
        for name, path in pages.items():
            await page.goto(url + path)
            await picture(page, folder / f"{name}.png", width)


async def take_forms(browser: Browser, site: Site, url: str, folder: Path) -> None:
    """Take the pictures of what is filled in: signing in, and a pod that would fit."""
    page = await browser.new_page(viewport={"width": WIDTH, "height": 560})
    await page.goto(url)
    await page.screenshot(path=folder / "sign-in.png")
    await page.close()
    async with signed_in(browser, url, site.server.token, "light") as page:
        await page.goto(f"{url}/fits")
        await page.fill("[name=memory]", "8000")
        await page.fill("[name=cores]", "25")
        await page.click("main button.main")
        await picture(page, folder / "fits.png")


async def main(folder: Path) -> None:
    """Take all pictures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium: install Debian's package of that name (tools/debian-packages.txt)")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with tempfile.TemporaryDirectory() as work:
            async with serve(Path(work)) as (site, url):
                await set_small_scene(site)
                await take(browser, site, url, "light", SMALL, folder)
                await take(browser, site, url, "dark", SMALL_DARK, folder)
                await take(browser, site, url, "light", SMALL_PHONE, folder, PHONE_WIDTH)
                await take_forms(browser, site, url, folder)
        with tempfile.TemporaryDirectory() as work:
            async with serve(Path(work)) as (site, url):
                await set_large_scene(site)
                await take(browser, site, url, "light", LARGE, folder)
                await take(browser, site, url, "dark", LARGE_DARK, folder)
        await browser.close()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
