"""What axe-core finds on the pages, light and dark, wide and narrow; and that the keyboard is enough."""

from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from local.web.browsing import Window, open_window
from playwright.async_api import Browser, expect

pytestmark = pytest.mark.browser

PATHS = (
    "/",
    "/nodes",
    "/nodes/node-c",
    "/cards/GPU-node-a-0003-4000-8000",
    "/pods",
    "/pods/default/train-wide",
    "/pods/default/notebook-1",
    "/pending",
    "/fits",
    "/quotas",
    "/decisions",
    "/decisions/5",
    "/nowhere",
)
PHONE, DESK = {"width": 390, "height": 800}, {"width": 1400, "height": 900}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def list_serious(found: Any) -> list[str]:
    """Say what is wrong, where, of what keeps people out."""
    return [
        f"{one['id']}: {one['nodes'][0]['html']} ({one['nodes'][0]['failureSummary']})"
        for one in found.response["violations"]
        if one["impact"] in {"serious", "critical"}
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(
    window: Window, browser: Browser, scheme: Literal["light", "dark"], size: dict[str, int]
) -> None:
    async with open_window(window.pages, browser, color_scheme=scheme, viewport=size) as seen:
        await seen.open("/")
        found = {"/sign-in": list_serious(await Axe().run(seen.page, options=RULES))}
        await seen.sign_in()
        for path in PATHS:
            await seen.open(path)
            found[path] = list_serious(await Axe().run(seen.page, options=RULES))
    assert {path: faults for path, faults in found.items() if faults} == {}


async def test_filters_and_headings_are_used_by_keyboard(window: Window) -> None:
    await window.sign_in(path="/pods")
    await window.wait_live()
    keyboard, rows = window.page.keyboard, window.page.locator("#pods tbody th")
    await window.page.get_by_label("Pod name has").focus()
    await keyboard.type("notebook")
    await expect(rows).to_have_count(3)
    await window.page.get_by_role("columnheader", name="Memory").get_by_role("link").focus()
    await keyboard.press("Enter")
    await expect(window.page.get_by_role("columnheader", name="Memory")).to_have_attribute("aria-sort", "descending")
    await rows.first.get_by_role("link").focus()
    await keyboard.press("Enter")
    await expect(window.title).to_contain_text("Pod default/notebook-")
