"""The HTTP side: routes, status codes, limits, what bad input gets (wire protocol 5)."""

import asyncio
import dataclasses
import io
import time
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site

from gpuloom.local.manifests import pod_manifest
from gpuloom.scheduler import CannotServeError, SchedulerProcess

JSON = {"Content-Type": "application/json"}


async def post(site: Site, route: str, body: bytes, **headers: str) -> tuple[int, Any]:
    url = f"{site.process.url}{route}"
    async with site.session.post(url, data=io.BytesIO(body), headers=JSON | headers) as reply:
        text = await reply.text()
        return reply.status, await reply.json() if reply.content_type == "application/json" else text


async def get_status(site: Site, route: str) -> int:
    async with site.session.get(f"{site.process.url}{route}") as reply:
        return reply.status


def compute(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_a_call_without_body_is_told_so(site: Site, verb: str) -> None:
    assert await post(site, f"/{verb}", b"") == (400, "Please send a request body")


@pytest.mark.parametrize("verb", ["filter", "bind"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"Pod": 1, "PodName": 1}', b"[" * 100_000])
async def test_an_undecodable_body_is_an_error_in_the_reply(site: Site, verb: str, body: bytes) -> None:
    status, reply = await post(site, f"/{verb}", body)
    assert (status, bool(reply["Error"])) == (200, True)


@pytest.mark.parametrize("verb", ["filter", "bind", "webhook"])
async def test_a_body_that_does_not_arrive_in_time_is_given_up(
    site: Site, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuloom.scheduler.http.routes.READ_TIMEOUT_S", 0.02)
    host, port = site.process.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /{verb} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    writer.write(head.encode())
    status = await reader.readline()
    writer.close()
    assert status == b"HTTP/1.1 408 Request Timeout\r\n"


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_an_oversized_body_is_an_error_in_the_reply(site: Site, verb: str) -> None:
    """B-32; binding 6 bounded input."""
    status, reply = await post(site, f"/{verb}", b" " * (16 * 2**20 + 1))
    assert (status, reply["Error"]) == (200, "request body too large")


async def test_filter_without_a_pod_is_an_error(site: Site) -> None:
    assert (await post(site, "/filter", b"{}"))[1]["Error"] == "extender args missing pod"


async def test_filter_without_candidates_refuses(site: Site) -> None:
    """B-29."""
    pod = await site.submit()
    reply = await site.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": None})
    assert (reply["NodeNames"], reply["FailedAndUnresolvableNodes"], reply["Error"]) == (None, {}, "")


async def test_keys_are_read_in_any_letter_case(site: Site) -> None:
    pod = await site.submit()
    assert (await site.call("filter", {"pod": pod, "nodeNames": ["n1"]}))["NodeNames"] == ["n1"]


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"kind": "AdmissionReview", "apiVersion": "v7"}', b"\xff"])
async def test_a_bad_review_is_answered_as_a_review_with_code_400(site: Site, body: bytes) -> None:
    status, reply = await post(site, "/webhook", body)
    assert (status, reply["response"]["allowed"], reply["response"]["status"]["code"]) == (200, False, 400)


async def test_a_review_of_another_content_type_is_answered_with_code_400(site: Site) -> None:
    _, reply = await post(site, "/webhook", b"{}", **{"Content-Type": "text/plain"})
    assert reply["response"]["status"] == {
        "code": 400,
        "message": "contentType=text/plain, expected application/json",
    }


async def test_an_oversized_body_that_names_no_review_is_refused(site: Site) -> None:
    status, _ = await post(site, "/webhook", b" " * (16 * 2**20 + 1))
    assert status == 413


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_review_is_answered_in_its_own_version_and_with_its_uid(site: Site, version: str) -> None:
    body = {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": {"uid": "r1", "object": pod_manifest("p")},
    }
    reply = await site.call("webhook", body)
    assert (reply["apiVersion"], reply["response"]["uid"]) == (f"admission.k8s.io/{version}", "r1")
    assert (reply["response"]["allowed"], reply["response"]["patchType"]) == (True, "JSONPatch")


@pytest.mark.parametrize(
    ("route", "status"), [("/healthz", 200), ("/readyz", 200), ("/nowhere", 404), ("/filter", 405)]
)
async def test_routes(site: Site, route: str, status: int) -> None:
    """scheduler 8.4 healthz."""
    assert await get_status(site, route) == status


async def test_ready_only_when_the_first_lists_are_complete(empty: Site) -> None:
    """binding 5 readyz."""
    outage = empty.fail("GET", r"/pods\?", status=503, times=1000)
    await empty.start()
    assert (await get_status(empty, "/readyz"), await get_status(empty, "/healthz")) == (503, 200)
    empty.server.faults.waiting.remove(outage)
    await empty.process.wait_synced()
    assert await get_status(empty, "/readyz") == 200


async def test_filter_waits_for_the_first_lists(empty: Site) -> None:
    """D-28; scheduler 8.3 synced."""
    outage = empty.fail("GET", r"/nodes\?", status=503, times=1000)
    await empty.start()
    pod = await empty.submit()
    call = asyncio.create_task(empty.filter(pod, "n1"))
    await poll(lambda: outage.times < 1000)
    assert not call.done()
    empty.server.faults.waiting.remove(outage)
    assert (await call)["FailedAndUnresolvableNodes"] == {"n1": "node unregistered"}


async def test_stopping_answers_a_filter_that_waits(empty: Site) -> None:
    outage = empty.fail("GET", r"/nodes\?", status=503, times=1000)
    await empty.start()
    pod = await empty.submit()
    call = asyncio.create_task(empty.filter(pod, "n1"))
    await poll(lambda: outage.times < 1000)
    await asyncio.sleep(0.05)
    await empty.stack.aclose()
    assert (await call)["Error"] == "scheduler shutting down"


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:http", "127.0.0.1:99999", "192.0.2.1:80"])
async def test_an_address_that_cannot_be_used_is_one_clear_error(empty: Site, address: str) -> None:
    with pytest.raises(CannotServeError, match=r"http_bind"):
        await SchedulerProcess(dataclasses.replace(DEFAULTS, http_bind=address), empty.client).__aenter__()


async def test_a_part_that_breaks_is_the_end_of_the_process(empty: Site) -> None:
    async def break_down(_seconds: float) -> None:
        raise RuntimeError("broken")

    clocks = dataclasses.replace(empty.clock.clocks, sleep=break_down)
    async with SchedulerProcess(DEFAULTS, empty.client, clocks=clocks) as process:
        with pytest.raises(RuntimeError, match="broken"):
            await process.wait_failed()


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("", "goroutine"),
        ("goroutine", "Stack for"),
        ("profile?seconds=0.1", "cumulative"),
        ("heap?seconds=0.1", ".py:"),
        ("stalls?seconds=0.1", "longest_ms"),
    ],
)
async def test_what_the_process_does_is_shown_on_demand(empty: Site, route: str, words: str) -> None:
    await empty.start(dataclasses.replace(DEFAULTS, profiling=True))
    async with empty.session.get(f"{empty.process.url}/debug/pprof/{route}") as reply:
        assert (reply.status, words in await reply.text()) == (200, True)


async def test_a_loop_that_lets_others_wait_is_shown(empty: Site) -> None:
    await empty.start(dataclasses.replace(DEFAULTS, profiling=True))
    url = f"{empty.process.url}/debug/pprof/stalls?seconds=0.2"
    asked = asyncio.create_task(empty.session.get(url))
    while not asked.done():
        compute(0.02)
        await asyncio.sleep(0)
    found = dict(line.split() for line in (await (await asked).text()).splitlines())
    assert 15 < float(found["computing_ms"]) <= float(found["longest_ms"])


async def test_a_profile_of_no_number_of_seconds_is_a_bad_request(empty: Site) -> None:
    await empty.start(dataclasses.replace(DEFAULTS, profiling=True))
    for seconds in ("many", "nan"):
        assert await get_status(empty, f"/debug/pprof/profile?seconds={seconds}") == 400


async def test_nobody_is_profiled_without_demand(site: Site) -> None:
    assert await get_status(site, "/debug/pprof/") == 404
