"""A scheduler with its pages beside a local API server, and people with and without rights."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local.web.browsing import Window, open_window
from local.web.pages import Pages, open_pages
from local.web.scenes import set_small_scene
from playwright.async_api import Browser, async_playwright

from harness.availability import require


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    """One node with one card of 10,000 MiB."""
    async with open_pages(tmp_path) as opened:
        yield opened


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium")
    require(chromium, "no chromium: install Debian's package (tools/debian-packages.txt)")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        await running.close()


@pytest.fixture
async def scene(pages: Pages) -> Pages:
    """A small cluster with pods on cards and pods that wait."""
    await set_small_scene(pages.site)
    return pages


@pytest.fixture
async def window(scene: Pages, browser: Browser) -> AsyncIterator[Window]:
    """The browser of somebody who may see everything, not signed in yet; its pages must load nothing from outside."""
    async with open_window(scene, browser) as opened:
        yield opened
        assert (opened.outside, opened.faults) == ([], [])
