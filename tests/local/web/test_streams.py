"""Streams of changes, without a browser: what is sent to whom, how many there may be, and how they end."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import REGISTER
from local.web.pages import Pages
from local.web.pieces import count_pieces
from local.web.scenes import set_large_scene
from markupsafe import Markup

from gpuloom.kube import NODES, PODS
from gpuloom.local.manifests import pod_manifest
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard import live, streaming
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.pages.overview import make_overview
from gpuloom.web.dashboard.regions import DashboardPage, find_changes
from gpuloom.web.dashboard.routes import PAGES


@asynccontextmanager
async def follow(pages: Pages, path: str, *, who: str = "", state: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"Bearer {who or pages.site.server.token}"}
    url = f"{pages.part.url}/live{path}"
    async with pages.session.get(url, params={"state": state}, headers=headers) as reply:
        yield reply


async def next_event(reply: aiohttp.ClientResponse) -> tuple[str, Any]:
    """Read on to the next event: its kind and data."""
    async with asyncio.timeout(60):
        kind = ""
        async for line in reply.content:
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                kind = text.removeprefix("event: ")
            elif text.startswith("data: "):
                return kind, json.loads(text.removeprefix("data: "))
    raise AssertionError("the stream ended")


async def next_trouble(reply: aiohttp.ClientResponse) -> str:
    """Read on until it is said why the page is not live, or that it is again."""
    kind, said = "", dict[str, str]()
    while kind != "trouble":
        kind, said = await next_event(reply)
    return str(said["why"])


async def state_of(pages: Pages, path: str) -> str:
    headers = {"Authorization": f"Bearer {pages.site.server.token}"}
    async with pages.session.get(f"{pages.part.url}{path}", headers=headers) as reply:
        found = re.search(r'data-state="(\w+)"', await reply.text())
        assert found
        return found[1]


async def test_a_browser_that_shows_an_older_state_is_sent_everything(pages: Pages) -> None:
    async with follow(pages, "/nodes/n1", state="older") as reply:
        kind, changes = await next_event(reply)
    assert (kind, sorted(changes)) == ("change", ["cards", "node", "nominations"])


async def test_only_what_changed_is_sent(pages: Pages) -> None:
    await pages.site.register("n2")
    await poll(lambda: all(map(pages.site.process.state.cluster.has, ("n1", "n2"))))
    async with follow(pages, "") as reply:
        told = set((await next_event(reply))[1])
        assert "map" in told
        await pages.site.choose(await pages.site.submit("newcomer"), "n1")
        told = set()
        while "n-n1" not in told:
            told |= set((await next_event(reply))[1])
    assert told == {"n-n1", "sums"}


async def test_people_with_equal_rights_share_the_work(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def note(before: DashboardPage | None, after: DashboardPage) -> Iterator[tuple[str, Markup]]:
        written.append((before.state if before else "", after.state))
        return find_changes(before, after)

    monkeypatch.setattr(live, "find_changes", note)
    state = await state_of(pages, "/nodes/n1")
    async with AsyncExitStack() as people:
        streams = [
            await people.enter_async_context(follow(pages, "/nodes/n1", state=state)) for _ in range(live.MOST_OF_ONE)
        ]
        await pages.site.choose(await pages.site.submit("newcomer"))
        for stream in streams:
            assert (await next_event(stream))[0] == "change"
    assert len(written) == len(set(written)) <= 2


async def test_ten_people_who_open_a_page_at_once_cost_no_more_than_two(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    async def note(api: WebApi, asked: Asked) -> DashboardPage:
        made.append(asked)
        return await make_overview(api, asked)

    monkeypatch.setitem(PAGES, "/", note)
    await asyncio.gather(*(state_of(pages, "/") for _ in range(10)))
    assert len(made) <= 2


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nodes",
        "/nodes?sort=-pods&page=999999",
        "/nodes/gpu-0001",
        "/pods",
        "/pods?sort=-cards&page=999999",
        "/pods?sort=-cores&page=2",
        "/pending",
        "/pods/default/wide-0",
        "/decisions",
    ],
)
async def test_no_piece_of_a_page_is_long_however_large_the_cluster(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Counted in calls of functions. In one piece the table of nodes takes 19,000 here, the explanation 31,000."""
    await set_large_scene(pages.site, 150)
    await state_of(pages, path)
    monkeypatch.setattr("gpuloom.web.pacing.SLICE_S", 0.0)
    with count_pieces() as pieces:
        await state_of(pages, path)
    assert 0 < pieces.longest < 5000


async def test_too_many_streams_of_one_person_are_refused_in_words(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_OF_ONE", 1)
    async with follow(pages, ""), follow(pages, "") as second:
        assert second.status == 503
        assert "too many pages" in await second.text()


async def test_a_stream_needs_the_rights_of_its_page(pages: Pages) -> None:
    nobody = pages.site.server.accounts.add("nobody", lambda *_: False)
    async with follow(pages, "", who=nobody) as reply:
        assert (await next_event(reply)) == ("over", {"why": "this needs the right to list nodes"})


async def test_a_stream_ends_when_its_token_does(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "RECOGNISED_S", 0.0)
    monkeypatch.setattr("gpuloom.serving.rights.REMEMBERED_S", 0.0)
    somebody = pages.site.server.accounts.add("somebody", lambda *_: True)
    async with follow(pages, "/nodes/n1", who=somebody, state=await state_of(pages, "/nodes/n1")) as reply:
        pages.site.server.accounts.remove(somebody)
        await pages.site.choose(await pages.site.submit("newcomer"))
        assert (await next_event(reply))[0] == "reload"


async def test_streams_do_not_hold_up_the_end_of_the_process(pages: Pages) -> None:
    async with follow(pages, "/nodes/n1", state=await state_of(pages, "/nodes/n1")) as reply:
        async with asyncio.timeout(3):
            await pages.part.__aexit__(None, None, None)
        assert (await next_event(reply)) == ("over", {"why": "closing"})


async def test_nobody_follows_a_page_without_a_token(pages: Pages) -> None:
    async with pages.session.get(f"{pages.part.url}/live/nodes") as reply:
        assert reply.status == 401


async def test_a_page_says_why_it_is_not_live_and_when_it_is_again(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERVAL_S", "RETRY_S"):
        monkeypatch.setattr(live, name, 0.0)
    await pages.site.client.create(PODS, pod_manifest("plain", cards=0), namespace="default")
    async with follow(pages, "/pods/default/plain") as reply:
        assert (await next_event(reply))[0] == "change"
        pages.site.fail("GET", "/pods/plain", status=503, message="not now", times=3)
        assert "not now" in await next_trouble(reply)
        assert await next_trouble(reply) == ""


async def test_a_page_whose_card_is_away_for_a_moment_is_live_again(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERVAL_S", "RETRY_S"):
        monkeypatch.setattr(live, name, 0.0)
    registered = (await pages.site.client.get(NODES, "n1")).annotations[REGISTER]
    async with follow(pages, "/cards/GPU-n1-0") as reply:
        assert (await next_event(reply))[0] == "change"
        await pages.site.annotate("n1", {REGISTER: "[]"})
        assert await next_trouble(reply) == "no node has a card GPU-n1-0"
        await pages.site.annotate("n1", {REGISTER: registered})
        assert await next_trouble(reply) == ""


async def test_where_rights_cannot_be_asked_for_a_stream_ends_and_nobody_has_to_reload(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "BEAT_S", 0.05)
    for module in ("serving.rights", "web.dashboard.streaming"):
        monkeypatch.setattr(f"gpuloom.{module}.REMEMBERED_S", 0.0)
    state = await state_of(pages, "/nodes/n1")
    async with asyncio.timeout(60), follow(pages, "/nodes/n1", state=state) as reply:
        pages.site.fail("POST", "subjectaccessreviews", status=500, times=100)
        assert "event:" not in (await reply.text())
    async with follow(pages, "/nodes/n1", state=state) as reply:
        assert reply.status == 503
    pages.site.server.faults.clear()
    async with follow(pages, "/nodes/n1", state=state) as reply:
        assert reply.status == 200


async def test_a_pod_that_gets_its_cards_has_a_place_for_what_it_uses(pages: Pages) -> None:
    pod = await pages.site.submit("p")
    assert '<section id="use">\n</section>' in await pages.read("/pods/default/p")
    state = await state_of(pages, "/pods/default/p")
    async with follow(pages, "/pods/default/p", state=state) as reply:
        await pages.site.choose(pod)
        changes: dict[str, str] = {}
        while "use" not in changes:
            changes |= (await next_event(reply))[1]
    assert "Used, of its allocated memory" in changes["use"]
