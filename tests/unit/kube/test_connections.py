"""What both kinds of connections promise; all that they carry is in test_client.py and test_tls.py."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from unit.kube.scripted import ScriptedServer, drop, failure, hang, pod, pod_list, raw_reply, reply, stream

from gpuloom.kube import PODS, ApiError, KubeClient, UnreachableError
from gpuloom.kube.connections import HttpConnections
from gpuloom.kube.lists import ListOptions
from gpuloom.kube.pooled import PooledConnections
from gpuloom.kube.threaded import ThreadedConnections

Make = Callable[[], HttpConnections]


@pytest.fixture(params=[PooledConnections, ThreadedConnections])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


async def get(server: ScriptedServer, make: Make) -> str:
    async with server.client("secret", connections=make()) as client:
        return (await client.get(PODS, "p", namespace="ns")).name


async def test_a_request_says_who_asks_and_what_is_understood(make: Make) -> None:
    async with ScriptedServer(reply(pod("p"))) as server:
        assert await get(server, make) == "p"
    (seen,) = server.seen
    headers = {key: seen.headers[key] for key in ("Authorization", "Accept", "Accept-Encoding", "Host")}
    host = server.url.removeprefix("http://")
    assert headers == {
        "Authorization": "Bearer secret",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Host": host,
    }
    assert seen.headers["User-Agent"].startswith("gpuloom/")


async def test_a_query_arrives_as_it_was_meant(make: Make) -> None:
    async with ScriptedServer(pod_list()) as server, server.client(connections=make()) as client:
        await client.list_all(PODS, label_selector="a in (b,c),d=e f&g")
    assert server.seen[0].query == {"labelSelector": "a in (b,c),d=e f&g", "limit": "500"}


async def test_a_body_arrives_with_its_type(make: Make) -> None:
    async with ScriptedServer(reply(pod("p"))) as server, server.client(connections=make()) as client:
        await client.patch(PODS, "p", {"a": "ü"}, namespace="ns")
    (seen,) = server.seen
    assert (seen.method, seen.body) == ("PATCH", {"a": "ü"})
    assert seen.headers["Content-Type"] == "application/merge-patch+json"


async def test_a_large_answer_arrives_whole(make: Make) -> None:
    text = "x" * 3_000_000
    async with ScriptedServer(raw_reply(text.encode())) as server, server.client(connections=make()) as client:
        assert len(await client.call("GET", "/x", "x")) == len(text)


async def test_calls_at_the_same_time_do_not_wait_for_each_other(make: Make) -> None:
    async with ScriptedServer(hang(), reply(pod("p"))) as server, server.client(connections=make()) as client:
        slow = asyncio.create_task(client.get(PODS, "slow", namespace="ns"))
        await server.wait_for_requests(1)
        assert (await client.get(PODS, "p", namespace="ns")).name == "p"
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow


async def test_the_last_word_of_a_refusal_is_told(make: Make) -> None:
    async with ScriptedServer(failure(403, message="you may not")) as server:
        with pytest.raises(ApiError, match=r"get Pod ns/p: you may not \(HTTP 403\)"):
            await get(server, make)


async def test_a_redirect_is_not_followed(make: Make) -> None:
    async with ScriptedServer(reply({}, 302, {"Location": "/elsewhere"})) as server:
        with pytest.raises(ApiError, match="HTTP 302"):
            await get(server, make)
    assert len(server.seen) == 1


async def test_a_call_ends_at_its_deadline(make: Make) -> None:
    async with ScriptedServer(hang()) as server, server.client(connections=make(), timeout_s=0.02) as client:
        with pytest.raises(UnreachableError, match=r"no answer from http.* within 0.02 s"):
            await client.get(PODS, "p", namespace="ns")


async def test_a_refused_connection_is_told_in_the_systems_words(make: Make) -> None:
    async with ScriptedServer() as server:
        pass
    with pytest.raises(UnreachableError) as caught:
        await get(server, make)
    assert str(caught.value) == f"get Pod ns/p: no answer from {server.url}: Connection refused"


async def test_a_connection_that_ends_without_an_answer_is_unreachable(make: Make) -> None:
    async with ScriptedServer(drop()) as server, server.client(connections=make()) as client:
        with pytest.raises(UnreachableError, match="patch Pod ns/p: no answer from"):
            await client.patch(PODS, "p", {}, namespace="ns")


async def test_half_an_answer_is_none(make: Make) -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{}")
        assert request.transport is not None
        request.transport.close()
        return response

    async with ScriptedServer(break_off) as server:
        with pytest.raises(UnreachableError, match="get Pod ns/p: no answer from"):
            await get(server, make)


async def test_a_silent_watch_ends(make: Make) -> None:
    silent = stream({"type": "ADDED", "object": pod("p")}, hold=True)
    async with ScriptedServer(silent) as server, server.client(connections=make()) as client:
        with pytest.raises(UnreachableError, match=r"nothing received for 0.1 s"):
            await _watch(client)


async def _watch(client: KubeClient) -> None:
    async for line in client.watch(PODS, ListOptions(), version="1", timeout_s=60, silence_s=0.1):
        assert line.type == "ADDED"
