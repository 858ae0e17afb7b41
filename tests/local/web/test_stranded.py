"""What is stranded: on the overview, over the last hours, and node by node."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
from axe_playwright_python.async_playwright import Axe
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, open_site
from local.scheduler.test_metrics import scrape
from local.web.browsing import open_window
from local.web.pages import Pages
from local.web.scenes import A100, L4, cards_of, run_pod
from local.web.test_accessibility import DESK, PHONE, RULES, list_serious
from local.web.test_tables import rows_of
from local.web.test_use import see_until
from playwright.async_api import Browser, expect

from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix
from gpuloom.kube import NODES
from gpuloom.web.server import WebPart, WebSettings

HALVES = ExpectedShape("NVIDIA", 4000, 1, memory_percent=50, cores=50)
WHOLE = ExpectedShape("NVIDIA", 8000, 1, memory_percent=100, cores=100)
SETTINGS = replace(
    DEFAULTS,
    metrics_bind_address="127.0.0.1:0",
    node_scheduler_policy="fragmentation",
    workload=PodMix({HALVES: 6, WHOLE: 3, ExpectedShape(cpu_milli=2000): 1}),
)


@pytest.fixture
async def stranded(tmp_path: Path) -> AsyncIterator[Pages]:
    """Three nodes: broad has CPU, narrow has not, and small one card."""
    async with open_site(tmp_path) as site:
        await site.start(SETTINGS)
        await site.process.wait_synced()
        for name, count, cpu, model in (("broad", 4, "64", A100), ("narrow", 4, "5", L4), ("small", 1, "64", L4)):
            await site.register(name, *cards_of(name, model, count, 40960))
            has = {"nvidia.com/gpu": "40", "cpu": cpu, "memory": "64Gi", "pods": "110"}
            await site.client.patch(
                NODES, name, {"status": {"allocatable": has, "capacity": has}}, subresource="status"
            )
        await poll(
            lambda: all("cpu" in (node.status.allocatable or {}) for node in site.process.state.shown.nodes.values())
        )
        settings = WebSettings(web_bind="127.0.0.1:0")
        async with WebPart(settings, site.process.parts, site.client) as part, aiohttp.ClientSession() as session:
            yield Pages(site, part, session)


async def place(pages: Pages) -> None:
    """Place a pod by the policy, and let the pages look again."""
    await run_pod(pages.site, "most-of-a-card", "small", memory_mib=28000, cores=70)
    await pages.site.clock.advance(10)


async def see_known(pages: Pages) -> Any:
    await place(pages)
    return (await see_until(pages, "/overview", lambda one: "stranded" in one))["stranded"]


async def test_before_a_pod_is_placed_by_the_policy_the_pages_say_that_it_is_not_known(stranded: Pages) -> None:
    assert "placed by the policy fragmentation" in (await stranded.see("/overview"))["whyNotStranded"]
    assert "What is stranded is not shown: which pods are to come" in await stranded.read("/")


async def test_without_knowing_it_nodes_have_no_column_for_it(stranded: Pages) -> None:
    html = await stranded.read("/nodes?sort=-stranded")
    assert (rows_of(html), "Stranded" in html) == (["broad", "narrow", "small"], False)


async def test_the_overview_tells_the_number_of_the_metric(stranded: Pages) -> None:
    seen = await see_known(stranded)
    ((_, measured),) = (await scrape(stranded.site))["gpuloom_stranded_cards"]
    assert measured > 0
    assert seen["cards"] == pytest.approx(measured, abs=1e-5)
    assert f">{measured:.2f} of {seen['free']:.2f} free</a>" in await stranded.read("/")


async def test_the_last_hours_are_per_cent_of_what_was_free(stranded: Pages) -> None:
    seen = await see_known(stranded)
    assert (len(seen["percentHours"]), seen["pointSeconds"], seen["percentHours"][0]) == (60, 360, None)
    assert seen["percentHours"][-1] == round(100 * seen["cards"] / seen["free"])
    assert "stranded of what is free, last 6 hours:" in await stranded.read("/")


async def test_the_hours_keep_what_was_and_forget_it_in_the_end(stranded: Pages) -> None:
    first = (await see_known(stranded))["percentHours"][-1]
    await stranded.site.clock.advance(360)

    def has_moved(overview: Any) -> bool:
        return len([one for one in overview["stranded"]["percentHours"] if one is not None]) == 2

    assert (await see_until(stranded, "/overview", has_moved))["stranded"]["percentHours"][-2] == first
    await stranded.site.clock.advance(7 * 3600)
    await see_until(stranded, "/overview", lambda one: not has_moved(one))


@pytest.mark.parametrize(
    ("node", "cause", "words"),
    [
        ("broad", "noCards", "some pods ask for no cards"),
        ("narrow", "noCpu", "too little CPU is free"),
        ("small", "pieces", "pieces are too small or too few"),
    ],
)
async def test_a_node_says_why_most_of_it_is_stranded(stranded: Pages, node: str, cause: str, words: str) -> None:
    await see_known(stranded)
    seen = (await stranded.see(f"/nodes/{node}"))["node"]["stranded"]
    causes = {name: seen.get(name, 0) for name in ("noCards", "otherModels", "noCpu", "pieces")}
    assert max(causes, key=lambda name: causes[name]) == cause
    assert sum(causes.values()) == pytest.approx(seen["cards"], abs=1e-5)
    assert words in await stranded.read(f"/nodes?q={node}")
    assert f": {words}" in await stranded.read(f"/nodes/{node}")


async def test_nodes_are_sorted_by_what_is_stranded_there(stranded: Pages) -> None:
    await see_known(stranded)
    items = (await stranded.see("/nodes"))["items"]
    names = [one["name"] for one in sorted(items, key=lambda one: -one["stranded"]["cards"])]
    assert rows_of(await stranded.read("/nodes?sort=-stranded")) == names
    assert rows_of(await stranded.read("/nodes?sort=stranded")) == names[::-1]


async def test_questions_do_not_make_it_be_worked_out_again(stranded: Pages) -> None:
    before = (await see_known(stranded))["at"]
    await run_pod(stranded.site, "next", "broad", memory_mib=40000, cores=100)
    assert (await stranded.see("/overview"))["stranded"]["at"] == before
    await stranded.site.clock.advance(10)
    await see_until(stranded, "/overview", lambda one: one["stranded"]["at"] > before)


@pytest.mark.browser
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_it(
    stranded: Pages, browser: Browser, scheme: Literal["light", "dark"], size: Any
) -> None:
    await see_known(stranded)
    found = {}
    async with open_window(stranded, browser, color_scheme=scheme, viewport=size) as seen:
        await seen.sign_in()
        for path in ("/", "/nodes?sort=-stranded", "/nodes/narrow"):
            await seen.open(path)
            found[path] = list_serious(await Axe().run(seen.page, options=RULES))
    assert {path: faults for path, faults in found.items() if faults} == {}


@pytest.mark.browser
async def test_the_keyboard_leads_from_the_overview_to_the_nodes_where_most_is_stranded(
    stranded: Pages, browser: Browser
) -> None:
    await see_known(stranded)
    async with open_window(stranded, browser) as seen:
        await seen.sign_in()
        await seen.page.locator("#sums").get_by_role("link", name=" free").focus()
        await seen.page.keyboard.press("Enter")
        heading = seen.page.get_by_role("columnheader", name="Stranded")
        await expect(heading).to_have_attribute("aria-sort", "descending")
