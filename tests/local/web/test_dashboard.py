"""Each page in a real browser."""

import asyncio
import re
from pathlib import Path

import pytest
from local.web.browsing import Window, open_window
from local.web.scenes import run_pod
from playwright.async_api import Browser, expect

from gpuloom.kube import PODS
from gpuloom.model.reasons import Reason
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.web.dashboard import live
from gpuloom.wire.words import encode_time

pytestmark = pytest.mark.browser

CARD = "GPU-node-a-0003-4000-8000"


async def test_the_overview_shows_every_card_and_what_needs_attention(window: Window) -> None:
    await window.sign_in()
    await expect(window.title).to_have_text("Overview")
    await expect(window.page.locator("#map li[id] a")).to_have_text(["n1", "node-a", "node-b", "node-c", "node-d"])
    tile = window.page.get_by_role("link", name="node-b: 4 cards")
    await expect(tile).to_have_accessible_name("node-b: 4 cards, 0 % of the memory allocated, 3 free, 1 unhealthy")
    await window.see("names no card: the device plugin found none")


async def test_the_map_can_be_narrowed_to_nodes_that_need_attention(window: Window) -> None:
    await window.sign_in()
    await window.wait_live()
    await window.page.get_by_label("State").select_option("trouble")
    await expect(window.page.locator("#map li[id] a")).to_have_text(["node-b", "node-c", "node-d"])
    await window.wait_live()
    await window.page.get_by_label("Model").select_option("NVIDIA L4")
    await expect(window.page.locator("#map li[id] a")).to_have_text(["node-b"])
    assert window.page.url.endswith("/?show=trouble&model=NVIDIA+L4")


async def test_what_is_narrowed_stays_live(window: Window) -> None:
    await window.sign_in()
    await window.wait_live()
    await window.page.get_by_label("Node name has").fill("node-b")
    await expect(window.page.locator("#map li[id] a")).to_have_text(["node-b"])
    await expect(window.page.get_by_label("Node name has")).to_be_focused()
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    tile = window.page.get_by_role("link", name="node-b: 4 cards")
    await expect(tile).to_have_accessible_name("node-b: 4 cards, 21 % of the memory allocated, 2 free, 1 unhealthy")


async def test_pods_are_searched_while_one_types_and_sorted_by_a_heading(window: Window) -> None:
    await window.sign_in(path="/pods")
    await window.wait_live()
    await window.page.get_by_label("Pod name has").press_sequentially("notebook")
    rows = window.page.locator("#pods tbody th")
    await expect(rows).to_have_text(["default/notebook-1", "default/notebook-2", "default/notebook-3"])
    await expect(window.page).to_have_url(re.compile("q=notebook"))
    await window.page.get_by_role("columnheader", name="Pod").get_by_role("link").click()
    await expect(window.page.get_by_role("columnheader", name="Pod")).to_have_attribute("aria-sort", "descending")
    await expect(rows).to_have_text(["default/notebook-3", "default/notebook-2", "default/notebook-1"])
    await expect(window.page.get_by_label("Pod name has")).to_have_value("notebook")


async def test_a_click_counts_though_the_list_changes_while_the_button_is_down(window: Window) -> None:
    await window.sign_in(path="/pods")
    await window.wait_live()
    await window.page.get_by_role("columnheader", name="Pod").get_by_role("link").hover()
    await window.page.mouse.down()
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    await expect(window.page.locator("html")).to_have_attribute("data-changes", re.compile("[1-9]"))
    await window.page.mouse.up()
    await expect(window.page.get_by_role("columnheader", name="Pod")).to_have_attribute("aria-sort", "descending")


async def test_what_came_while_the_button_was_down_is_shown_after(window: Window) -> None:
    await window.sign_in(path="/pods")
    await window.wait_live()
    await window.page.locator("#pods").get_by_role("columnheader").last.hover()
    await window.page.mouse.down()
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    await expect(window.page.locator("html")).to_have_attribute("data-changes", re.compile("[1-9]"))
    await expect(window.page.get_by_text("newcomer")).to_have_count(0)
    await window.page.mouse.up()
    await expect(window.page.get_by_text("newcomer")).not_to_have_count(0)


async def test_the_id_of_a_card_can_be_copied(window: Window) -> None:
    await window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await window.sign_in(path="/nodes/node-a")
    await window.page.get_by_role("button", name=f"Copy {CARD}").click()
    await expect(window.page.get_by_role("button", name=f"Copy {CARD}")).to_have_text("Copied")
    assert await window.page.evaluate("navigator.clipboard.readText()") == CARD


TOO_WIDE = "[...document.querySelectorAll('main .card')].filter(e => e.scrollWidth > e.clientWidth).length"


@pytest.mark.parametrize("path", ["/", "/nodes", "/nodes/node-c", "/pods", "/pending", "/pods/default/giant", "/fits"])
async def test_nothing_is_wider_than_a_phone(window: Window, browser: Browser, path: str) -> None:
    async with open_window(window.pages, browser, viewport={"width": 390, "height": 800}) as phone:
        await phone.sign_in(path=path)
        assert await phone.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert await phone.page.evaluate(TOO_WIDE) == 0


@pytest.mark.parametrize("path", ["/pods", "/decisions"])
async def test_the_longest_name_of_a_pod_pushes_no_column_out_of_sight(
    window: Window, browser: Browser, path: str
) -> None:
    await run_pod(window.pages.site, "-".join(["inference"] * 6) + "-it", "node-a", memory_mib=1000)
    async with open_window(window.pages, browser, viewport={"width": 1100, "height": 800}) as laptop:
        await laptop.sign_in(path=path)
        await laptop.see("inference-inference")
        assert await laptop.page.evaluate(TOO_WIDE) == 0


async def test_the_nodes_page_lists_nodes_with_their_sums(window: Window) -> None:
    await window.sign_in(path="/nodes")
    row = window.page.get_by_role("row", name="node-c")
    await expect(row).to_contain_text("240 of 320 GiB")
    await expect(row).to_contain_text("1 cordoned")


async def test_a_node_leads_to_a_card_that_tells_who_is_on_it_how_much_and_since_when(window: Window) -> None:
    await window.sign_in(path="/nodes/node-a")
    await window.page.get_by_role("link", name=CARD).click()
    await expect(window.title).to_have_text(f"Card {CARD}")
    row = window.page.get_by_role("row", name="default/notebook-1")
    await expect(row).to_contain_text("5.9 GiB")
    now = encode_time(window.pages.site.process.parts.clocks.now())
    await expect(row.locator("time")).to_have_attribute("datetime", now)


async def test_a_pending_pod_shows_its_reasons_in_the_words_of_the_table(window: Window) -> None:
    await window.sign_in(path="/pending")
    row = window.page.get_by_role("row", name="default/giant")
    for reason in (Reason.CARD_INSUFFICIENT_MEMORY, Reason.CARD_CORDONED, Reason.NODE_UNREGISTERED):
        await expect(row).to_contain_text(f"{reason.word} {reason.meaning}")


async def test_an_explanation_tells_the_numbers_and_what_would_help(window: Window) -> None:
    await window.sign_in(path="/pending")
    await window.page.get_by_role("link", name="default/train-wide").click()
    await window.see("fits on none of 5 nodes")
    await window.see("would fit on node-c without default/train-large")
    await window.see("asks 40,000 MiB; 11,034 of 23,034 free")


async def test_an_explanation_can_be_asked_about_one_node(window: Window) -> None:
    await window.sign_in(path="/pods/default/giant")
    await window.page.get_by_label("Details of node").fill("node-b")
    await window.page.get_by_label("Details of node").press("Enter")
    await expect(window.page.locator("#details h3")).to_have_text(["node-b ✕ does not fit"])


async def test_quotas_show_what_is_held_and_allowed(window: Window) -> None:
    await window.sign_in(path="/quotas")
    await expect(window.page.get_by_role("row", name="nvidia.com/gpumem")).to_contain_text("257.6 GiB")
    await expect(window.page.get_by_role("row", name="nvidia.com/gpumem")).to_contain_text("390.6 GiB")


async def test_would_it_fit_says_how_many_and_where(window: Window) -> None:
    await window.sign_in(path="/fits")
    await window.page.get_by_label("Memory of each, MiB").fill("8000")
    await window.page.get_by_role("button", name="Would it fit?").click()
    await window.see("There is room for 17 such pods now.")
    await expect(window.page.get_by_role("table", name="Where", exact=True)).to_contain_text("node-a")


async def test_would_it_fit_takes_a_manifest_and_explains_a_no(window: Window) -> None:
    await window.sign_in(path="/fits")
    await window.page.get_by_text("Or give a whole manifest").click()
    limits = "limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 90000}"
    manifest = f"kind: Pod\nspec:\n  containers:\n  - name: x\n    resources: {{{limits}}}\n"
    await window.page.get_by_label("Pod in YAML or JSON").fill(manifest)
    await window.page.get_by_role("button", name="Would it fit?").click()
    await window.see("fits on none of 5 nodes")
    await expect(window.page.get_by_label("Pod in YAML or JSON")).to_have_value(manifest)


async def test_a_decision_tells_why_and_can_be_downloaded_as_a_recording(window: Window) -> None:
    await window.sign_in(path="/decisions")
    await window.page.get_by_role("row", name="default/giant").get_by_role("link").first.click()
    await window.see("fitted on none of 3 nodes")
    await window.see("1/8 CardCordoned, 7/8 CardInsufficientMemory")
    async with window.page.expect_download() as downloading:
        await window.page.get_by_role("link", name="Download as recording").click()
    saved = Path(await (await downloading.value).path())
    lines = (await asyncio.to_thread(saved.read_bytes)).splitlines()
    assert type(decode_line(lines[-1])).__name__ == "FilterLine"


async def test_what_changes_is_shown_without_a_reload(window: Window) -> None:
    await window.sign_in()
    await window.wait_live()
    await expect(window.page.get_by_role("link", name="node-b: 4 cards")).to_contain_text("node-b")
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    tile = window.page.get_by_role("link", name="node-b: 4 cards")
    await expect(tile).to_have_accessible_name("node-b: 4 cards, 21 % of the memory allocated, 2 free, 1 unhealthy")
    assert await window.page.evaluate("performance.getEntriesByType('navigation').length") == 1


async def test_a_change_leaves_the_focus_where_it_is(window: Window) -> None:
    await window.sign_in()
    await window.wait_live()
    tile = window.page.get_by_role("link", name="node-b: 4 cards")
    await tile.focus()
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    await expect(tile).to_have_accessible_name("node-b: 4 cards, 21 % of the memory allocated, 2 free, 1 unhealthy")
    await expect(tile).to_be_focused()


async def test_a_change_leaves_the_focus_on_a_button(window: Window) -> None:
    await window.sign_in(path="/nodes/node-a")
    await window.wait_live()
    button = window.page.get_by_role("button", name=f"Copy {CARD}")
    await button.focus()
    await window.pages.site.annotate("node-a", {"hami.io/device-cordon": CARD})
    await expect(window.page.get_by_role("row", name=CARD)).to_contain_text("cordoned")
    await expect(button).to_be_focused()


async def test_a_change_leaves_the_focus_on_the_same_of_links_that_are_alike(window: Window) -> None:
    await window.sign_in(path="/pods")
    await window.wait_live()
    row = window.page.get_by_role("row", name="default/notebook-3")
    link = row.get_by_role("link", name="node-a", exact=True)
    await link.focus()
    await run_pod(window.pages.site, "newcomer", "node-b", memory_mib=20000)
    await expect(window.page.locator("#pods tbody tr")).to_have_count(5)
    await expect(link).to_be_focused()


async def test_who_types_a_node_sees_what_changes_meanwhile(window: Window) -> None:
    await window.sign_in(path="/pods/default/giant")
    await window.wait_live()
    field = window.page.get_by_label("Details of node")
    await field.press_sequentially("node-")
    await window.pages.site.register("node-e")
    await expect(window.page.locator("#details h3")).to_contain_text(["node-e"])
    await expect(field).to_be_focused()
    await expect(field).to_have_value("node-")


async def test_a_pod_that_gets_its_cards_shows_what_it_uses(window: Window) -> None:
    pod = await window.pages.site.submit("small", memory_mib=1000)
    await window.sign_in(path="/pods/default/small")
    await window.wait_live()
    assert await window.pages.site.choose(pod, "node-b") == "node-b"
    await expect(window.page.get_by_role("region", name="What it uses")).to_contain_text(
        "Used, of its allocated memory"
    )


async def test_the_page_of_a_pod_that_is_made_anew_is_live_again(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RETRY_S", 0.1)
    site = window.pages.site
    await window.sign_in(path="/pods/default/giant")
    await window.wait_live()
    await site.remove(await site.pod("giant"))
    await expect(window.page.get_by_role("status").first).to_have_text("not live now: there is no pod default/giant")
    await site.submit("giant", memory_mib=70000)
    await window.wait_live()
    await window.see("70,000 MiB")


async def test_a_pod_that_stops_waiting_leaves_the_page(window: Window) -> None:
    await window.sign_in(path="/pending")
    await window.wait_live()
    await window.pages.site.client.delete(PODS, "giant", namespace="default")
    await expect(window.page.get_by_role("link", name="default/giant")).to_have_count(0)


async def test_all_can_be_reached_by_keyboard(window: Window) -> None:
    await window.sign_in()
    page = window.page
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="2", exact=True)).to_be_focused()
    first = page.get_by_role("link", name="n1: 1 card")
    await first.focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("link", name="node-a: 4 cards")).to_be_focused()
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(window.title).to_have_text("Node node-d")


async def test_the_map_is_one_stop_for_the_tab_key(window: Window) -> None:
    await window.sign_in()
    await window.page.get_by_role("link", name="n1: 1 card").focus()
    await window.page.keyboard.press("Tab")
    assert await window.page.evaluate("document.querySelector('#map').contains(document.activeElement)") is False


@pytest.mark.parametrize("path", ["/", "/nodes", "/nodes/node-c", "/pods", "/pending", "/pods/default/giant", "/fits"])
async def test_pages_have_landmarks_labels_and_one_heading(window: Window, path: str) -> None:
    await window.sign_in(path=path)
    page = window.page
    for landmark in ("banner", "main"):
        await expect(page.get_by_role(landmark)).to_have_count(1)
    await expect(page.get_by_role("navigation", name="Pages")).to_have_count(1)
    await expect(window.title).to_have_count(1)
    unnamed = "[...document.querySelectorAll('input:not([type=hidden]),select,textarea')].filter(e => !e.labels.length)"
    assert await page.evaluate(f"{unnamed}.length") == 0
    assert await page.evaluate("[...document.querySelectorAll('table')].filter(t => !t.caption).length") == 0
    ids = "[...document.querySelectorAll('[id]')].map(e => e.id)"
    assert await page.evaluate(f"new Set({ids}).size === {ids}.length")


async def test_without_scripts_the_pages_can_be_read(window: Window, browser: Browser) -> None:
    async with open_window(window.pages, browser, java_script_enabled=False) as plain:
        await plain.sign_in()
        await expect(plain.title).to_have_text("Overview")
        await plain.page.get_by_role("link", name="node-c").last.click()
        await expect(plain.title).to_have_text("Node node-c")
