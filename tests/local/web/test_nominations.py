"""Pods for which room is being made, as the API and the pages show them, and why others are evicted."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import msgspec
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, open_site
from local.web.pages import Pages
from local.web.scenes import run_pod
from local.web.test_api import NAMESPACES, only_pods_of

from gpuloom.local.manifests import pod_manifest
from gpuloom.web.server import WebPart, WebSettings
from gpuloom.wire.words import encode_time


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    """A pod of priority 10 waits for one of priority 0 to leave the only card."""
    async with open_site(tmp_path) as site:
        await site.start(replace(DEFAULTS, preemption="on"))
        await site.process.wait_synced()
        await site.register("n1")
        settings = WebSettings(web_bind="127.0.0.1:0")
        async with (
            WebPart(settings, site.process.parts, site.client) as part,
            aiohttp.ClientSession() as session,
        ):
            assert await run_pod(site, "low", "n1", memory_mib=6000) == "n1"
            high = await site.submit("high", memory_mib=9000, spec={"priority": 10})
            assert await site.choose(high) is None
            await site.clock.run_until(lambda: len(site.process.state.nominations) > 0, step_s=0.05)
            await poll(lambda: len(site.process.state.shown.terminating) > 0)
            yield Pages(site, part, session)


async def test_a_nomination_tells_node_cards_since_when_and_who_has_to_leave(pages: Pages) -> None:
    (seen,) = (await pages.see("/nominations"))["items"]
    (nomination,) = pages.site.process.state.nominations
    (card,) = (await pages.see("/nodes/n1"))["cards"]
    assert seen == {
        "pod": {"namespace": "default", "name": "high"},
        "node": "n1",
        "cards": [card["uuid"]],
        "priority": 10,
        "since": encode_time(datetime.fromtimestamp(nomination.since, UTC)),
        "waitsFor": [{"namespace": "default", "name": "low"}],
    }
    assert (await pages.see("/nodes/n1"))["nominations"] == [seen]
    assert [one["nomination"] for one in (await pages.see("/pending"))["items"]] == [seen]
    assert (await pages.see("/nominations?namespace=other"))["items"] == []


async def test_who_would_take_the_room_of_another_is_told_that_it_is_kept(pages: Pages) -> None:
    small = await pages.site.submit("small", memory_mib=3000)
    assert await pages.site.choose(small) is None
    kept = "1 node(s) keep the room for pods that go before it (see gpuloom nodes NODE)"
    explained = await pages.see("/explain/default/small")
    (pending,) = (one for one in (await pages.see("/pending"))["items"] if one["pod"]["name"] == "small")
    _, fits = await pages.post("/fits?namespace=default", pod_manifest("new", memory_mib=3000))
    assert explained["headline"].startswith("does not fit on the only node")
    assert ("fits" in pending, "pods" in fits) == (False, False)
    assert [kept in said["why"] for said in (explained, fits["explanation"])] == [True, True]
    assert kept in pending["headline"]


async def test_nothing_helps_on_a_node_whose_room_is_kept_for_another(pages: Pages) -> None:
    await pages.site.submit("small", memory_mib=3000, spec={"nodeSelector": {"disk": "ssd"}})
    assert "remedies" not in await pages.see("/explain/default/small")
    await pages.site.submit("important", memory_mib=3000, spec={"nodeSelector": {"disk": "ssd"}, "priority": 20})
    assert len((await pages.see("/explain/default/important"))["remedies"]) == 1


async def test_a_more_important_pod_that_asks_alike_is_told_that_it_fits(pages: Pages) -> None:
    for name, priority in (("small", 0), ("important", 20)):
        await pages.site.submit(name, memory_mib=3000, spec={"priority": priority})
    pending = {one["pod"]["name"]: "fits" in one for one in (await pages.see("/pending"))["items"]}
    assert (pending["small"], pending["important"]) == (False, True)


async def test_explanations_say_for_whom_a_pod_is_evicted_and_for_whom_the_other_waits(pages: Pages) -> None:
    low, high = await pages.see("/explain/default/low"), await pages.see("/explain/default/high")
    assert low["notes"] == ["evicted to make room on n1 for default/high, of priority 10"]
    assert high["notes"] == ["room is being made for it on n1: it waits until these have left: default/low"]


async def test_who_has_room_where_it_waited_is_said_to_go_there_although_another_node_is_better(pages: Pages) -> None:
    site = pages.site
    await site.register("n2")
    await run_pod(site, "other", "n2", memory_mib=6000)
    high = await site.pod("high")
    assert await site.choose(high, "n1", "n2") is None
    for name in ("other", "low"):
        await site.remove(await site.pod(name))
    assert await run_pod(site, "small", "n2", memory_mib=1000) == "n2"
    explained = await pages.see("/explain/default/high?node=n2")
    (pending,) = (await pages.see("/pending"))["items"]
    assert "it fits on 1 of 2 nodes: n1" in explained["headline"]
    assert explained["nodes"][0]["causes"] == ["the pod has its room on another node"]
    assert pending["headline"].startswith("fits on n1 by now")
    assert await site.choose(high, "n1", "n2") == "n1"


async def test_pages_of_node_and_pod_show_the_nomination(pages: Pages) -> None:
    (nomination,) = pages.site.process.state.nominations
    since = encode_time(datetime.fromtimestamp(nomination.since, UTC))
    for path in ("/nodes/n1", "/pods/default/high"):
        page = await pages.read(path)
        table = page.partition("<caption>Room is being made</caption>")[2].partition("</table>")[0]
        for told in ("/pods/default/high", "/pods/default/low", "/nodes/n1", "n1/0<br>", "/cards/GPU-", since):
            assert told in table
    assert "Room is being made for it on node" in await pages.read("/pending")
    assert "evicted to make room on n1 for default/high" in await pages.read("/pods/default/low")


async def test_of_two_pods_for_one_room_it_is_made_for_the_more_important(pages: Pages) -> None:
    site = pages.site
    highest = await site.submit("highest", memory_mib=9000, spec={"priority": 20})
    assert await site.choose(highest) is None
    await site.clock.run_until(lambda: len(site.process.state.nominations) == 2, step_s=0.05)
    pending = {item["pod"]["name"]: item["nomination"] for item in (await pages.see("/pending"))["items"]}
    assert "cards" in pending["highest"]
    assert "cards" not in pending["high"]
    assert (await pages.read("/pending")).count("Room is being made for it on node") == 1


async def test_each_cell_of_a_nomination_says_on_a_phone_what_it_is(pages: Pages) -> None:
    page = await pages.read("/nodes/n1")
    table = page.partition("<caption>Room is being made</caption>")[2].partition("</table>")[0]
    assert len(re.findall(r"<td[^>]* data-label=", table)) == table.count("<td") == 5


async def test_a_node_without_nominations_shows_none(pages: Pages) -> None:
    await pages.site.remove(await pages.site.pod("high"))
    await poll(lambda: len(pages.site.process.state.nominations) == 0)
    assert "Room is being made" not in await pages.read("/nodes/n1")
    assert "nominations" not in await pages.see("/nodes/n1")


async def test_who_may_not_see_a_pod_learns_neither_its_name_nor_whom_it_evicts(pages: Pages) -> None:
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    pods_of_other = only_pods_of("other")
    somebody = pages.site.server.accounts.add(
        "somebody", lambda *asked: asked[:2] == ("list", "nodes") or pods_of_other(*asked)
    )
    assert (await pages.see("/nominations", who=somebody))["items"] == []
    seen = await pages.see("/nodes/n1", who=somebody)
    assert [one["pod"] for one in seen["nominations"]] == [{}]
    assert [one["waitsFor"] for one in seen["nominations"]] == [[{}]]
    assert "default" not in msgspec.json.encode(seen).decode()
