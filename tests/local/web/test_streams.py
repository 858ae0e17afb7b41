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
from local.web.pages import Pages
from local.web.pieces import count_pieces
from local.web.scenes import set_large_scene
from markupsafe import Markup

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


@pytest.mark.parametrize("path", ["/", "/nodes", "/nodes/gpu-0001", "/pending", "/pods/default/wide-0", "/decisions"])
async def test_no_piece_of_a_page_is_long_however_large_the_cluster(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Counted in calls of functions. In one piece the table of nodes takes 19,000 here, the explanation 31,000."""
    await set_large_scene(pages.site, 150)
    await state_of(pages, path)
    monkeypatch.setattr("gpuloom.web.pages.SLICE_S", 0.0)
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
