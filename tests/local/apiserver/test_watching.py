"""What only a server under the test's control can show: forgotten versions, bookmarks, slow watchers."""

import asyncio

import aiohttp
import pytest
from contract.client import Client
from local.apiserver.connection import connect

from gpuloom.local.apiserver import LocalApiServer


async def test_bookmarks_come_at_intervals(session: aiohttp.ClientSession) -> None:
    async with LocalApiServer(bookmark_interval_s=0.01) as server:
        api = connect(server, session)
        async with api.watch(api.pods, allowWatchBookmarks="true") as lines:
            first, second = await lines.next(), await lines.next()
    assert (first["type"], second["type"]) == ("BOOKMARK", "BOOKMARK")


async def test_a_bookmark_comes_before_the_end(api: Client) -> None:
    async with api.watch(api.pods, allowWatchBookmarks="true", timeoutSeconds="3") as lines:
        assert [event["type"] for event in await lines.rest()] == ["BOOKMARK"]


async def test_a_history_that_is_full_forgets_its_oldest_change(session: aiohttp.ClientSession) -> None:
    async with LocalApiServer(history_size=2) as server:
        api = connect(server, session)
        first = await api.create_pod("a")
        for name in "bcd":
            await api.create_pod(name)
        async with api.watch(api.pods, resourceVersion=first["metadata"]["resourceVersion"]) as lines:
            event = await lines.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_the_oldest_version_that_is_remembered_still_begins_a_watch(session: aiohttp.ClientSession) -> None:
    async with LocalApiServer(history_size=2) as server:
        api = connect(server, session)
        versions = [(await api.create_pod(name))["metadata"]["resourceVersion"] for name in "abcd"]
        async with api.watch(api.pods, resourceVersion=versions[1]) as lines:
            assert await lines.next_names(2) == [("ADDED", "c"), ("ADDED", "d")]


async def test_pages_of_a_forgotten_version_are_expired_and_tell_how_to_go_on(
    server: LocalApiServer, api: Client
) -> None:
    for name in "abc":
        await api.create_pod(name)
    page = await api.get(api.pods, limit="1")
    await api.create_pod("d")
    server.faults.expire_history()
    answer = await api.call("GET", api.pods, query={"continue": page["metadata"]["continue"]})
    assert (answer.code, answer.json["reason"]) == (410, "Expired")
    assert answer.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = await api.get(api.pods, **{"continue": answer.json["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]


async def test_a_watcher_that_does_not_read_is_dropped() -> None:
    async with LocalApiServer(tls=False, queue_size=8) as server, aiohttp.ClientSession(read_bufsize=1024) as session:
        headers = {"Authorization": f"Bearer {server.token}"}
        maps = f"{server.url}/api/v1/namespaces/default/configmaps"
        response = await session.get(f"{maps}?watch=1", headers=headers)
        async with asyncio.timeout(60):
            for number in range(400):
                body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 400_000}}
                async with aiohttp.ClientSession() as writer, writer.post(maps, json=body, headers=headers) as made:
                    assert made.status == 201
                if server.dropped_watchers:
                    break
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert server.dropped_watchers == 1
