"""Failures on demand."""

import aiohttp
import pytest
from contract.client import MERGE, Client

from gpuloom.local.apiserver import Fault, LocalApiServer


async def test_a_request_fails_as_often_as_asked(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(method="GET", path="/nodes", status=503, times=2))
    codes = [(await api.call("GET", "/api/v1/nodes")).code for _ in range(3)]
    assert codes == [503, 503, 200]


async def test_only_matching_requests_fail(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(method="PATCH", path="/nodes/", status=500))
    assert (await api.call("GET", "/api/v1/nodes")).code == 200
    assert (await api.call("PATCH", "/api/v1/nodes/n", {}, content_type=MERGE)).code == 500


async def test_a_refusal_may_say_when_to_come_back(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(status=429, reason="TooManyRequests", retry_after_s=7))
    answer = await api.call("GET", "/api/v1/nodes")
    assert (answer.code, answer.headers["Retry-After"], answer.json["reason"]) == (429, "7", "TooManyRequests")


async def test_a_lost_answer_leaves_the_write_done(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(method="POST", path="/pods$", lose_answer=True))
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await api.create_pod("p")
    assert (await api.get(f"{api.pods}/p"))["metadata"]["name"] == "p"


async def test_a_cut_request_is_not_carried_out(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(method="POST", path="/pods$", cut=True))
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await api.create_pod("p")
    assert (await api.call("GET", f"{api.pods}/p")).code == 404


async def test_a_delayed_request_is_carried_out(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(method="POST", delay_s=0.01))
    await api.create_pod("p")
    assert server.faults.waiting == []


async def test_faults_that_wait_are_forgotten_on_request(server: LocalApiServer, api: Client) -> None:
    server.faults.add(Fault(status=500))
    server.faults.clear()
    assert (await api.call("GET", "/api/v1/nodes")).code == 200


async def test_watches_of_one_kind_are_cut(server: LocalApiServer, api: Client) -> None:
    async with api.watch(api.pods) as pods, api.watch("/api/v1/nodes") as nodes:
        assert server.faults.cut_watches("pods") == 1
        with pytest.raises(aiohttp.ClientPayloadError):
            await pods.next()
        await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        assert await nodes.next_names(1) == [("ADDED", "n")]
