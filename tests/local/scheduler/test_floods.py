"""Whoever may create pods, or reach the port, sends the webhook what takes long to read (trust T-02)."""

import asyncio
import io
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import Site

from gpuloom.local.manifests import pod_manifest
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.serving.pace import PIECE_BYTES

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n"
LARGEST = 3 * 2**20
LONGEST_S = 0.1
"""No review comes near it on a slow machine; read and answered in one piece, each of these took three times as long."""


def review(pod: bytes, uid: str = "r1") -> bytes:
    return (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"%s","namespace":"default",'
        b'"object":%s}}' % (uid.encode(), pod)
    )


def pod_of(containers: bytes, count: int) -> bytes:
    return b'{"spec":{"containers":[' + b",".join([containers] * count) + b"]}}"


SHARE = b'{"name":"c","resources":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":"3000"}}}'
ENTRIES = 110_000
ATTACKS: dict[str, bytes] = {
    "empty containers": pod_of(b"{}", 20_000),
    "containers with shares": pod_of(SHARE, 2_000),
    "annotations": b'{"metadata":{"annotations":{%s}},"spec":{"containers":[{}]}}'
    % b",".join(b'"gpuloom.io/%d":""' % number for number in range(ENTRIES)),
    "labels": b'{"metadata":{"labels":{%s}},"spec":{"containers":[{}]}}'
    % b",".join(b'"%d":""' % number for number in range(ENTRIES)),
    "environment": pod_of(b'{"env":[' + b",".join([b"{}"] * 900_000) + b"]}", 1),
    "amounts": pod_of(
        b'{"resources":{"limits":{%s}}}' % b",".join(b'"l%d":1' % number for number in range(2 * ENTRIES)), 1
    ),
}


def choose_and_refuse(wanted: str, unwanted: str) -> bytes:
    """Return a pod that asks every vendor, and wants and refuses these cards each time."""
    catalog = SchedulerSettings().catalog
    pairs = [pair for one in catalog for pair in (*one.select.uuids, one.select.types) if pair]
    annotations = {key: text for pair in pairs for key, text in ((pair.use, wanted), (pair.nouse, unwanted))}
    limits = {one.resources.count: "1" for one in catalog}
    container = {"name": "c", "resources": {"limits": limits}}
    return json.dumps({"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}).encode()


LONG_NAME = "\u0101" + "a" * 16_383
"""Its first letter makes every search in it slow."""
SHORT_NAMES = [chr(0x4E00 + number) + "a" for number in range(3_000)]


DOUBTS: dict[str, bytes] = {
    "names": pod_of(
        b'{"name":"c","resources":{"limits":{%s}}}' % b",".join(b'"nvidia.com/gpumemo%d":1' % n for n in range(4_900)),
        1,
    ),
    "policies": b'{"metadata":{"annotations":{"hami.io/gpu-scheduler-policy":"%s"}},"spec":{"containers":[%s]}}'
    % (b",".join(b"binpac%d" % number for number in range(40_000)), SHARE),
    "choices": b'{"metadata":{"annotations":{"nvidia.com/use-gputype":"%s","nvidia.com/nouse-gputype":"%s"}},'
    b'"spec":{"containers":[%s]}}'
    % (
        b",".join(b"last%d" % number for number in range(18_000)),
        b",".join([*(b"other%d" % number for number in range(18_000)), b"last"]),
        SHARE,
    ),
    "cards": b'{"metadata":{"annotations":{"nvidia.com/use-gpuuuid":"%s"}},"spec":{"containers":[%s]}}'
    % (b",".join(b"%d" % number for number in range(40_000)), SHARE),
    "one long name and many others": choose_and_refuse(LONG_NAME, ",".join(SHORT_NAMES)),
    "many names and few others": choose_and_refuse(",".join(SHORT_NAMES[:1_300]), ",".join(SHORT_NAMES[-7:])),
}
"""Allowed, with as much as possible to warn of."""


def post(site: Site, body: bytes) -> Any:
    return site.session.post(f"{site.process.url}/webhook", data=io.BytesIO(body), headers=JSON)


@contextmanager
def watch_the_loop() -> Iterator[list[float]]:
    """Note how long the loop computed at most before it came round."""
    loop, beats, over = asyncio.get_running_loop(), [time.thread_time()], asyncio.Event()
    found: list[float] = [0.0]

    def beat() -> None:
        now = time.thread_time()
        found[0] = max(found[0], now - beats[0])
        beats[0] = now
        if not over.is_set():
            loop.call_soon(beat)

    beat()
    yield found
    over.set()


@asynccontextmanager
async def open_raw(site: Site) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = site.process.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_review_holds_the_loop(site: Site, attack: str) -> None:
    body = review(ATTACKS[attack])
    assert len(body) <= LARGEST
    with watch_the_loop() as longest:
        async with post(site, body) as reply:
            answer = await reply.json()
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == ("r1", False)
    assert longest[0] < LONGEST_S


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_warning_holds_the_loop(site: Site, doubt: str) -> None:
    body = review(DOUBTS[doubt])
    assert len(body) <= LARGEST
    with watch_the_loop() as longest:
        async with post(site, body) as reply:
            answer = await reply.json()
    assert answer["response"]["allowed"], answer["response"]["status"]
    assert longest[0] < LONGEST_S


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("empty containers", "pod has 20000 containers, at most 1000 are taken"),
        ("annotations", "pod has 110000 annotations and labels, at most 2000 are taken"),
        ("environment", "at most 20000 are taken"),
    ],
)
async def test_the_denial_names_the_rule(site: Site, attack: str, words: str) -> None:
    async with post(site, review(ATTACKS[attack])) as reply:
        answer = await reply.json()
    assert words in answer["response"]["status"]["message"]


async def test_a_pod_of_many_containers_without_shares_is_let_through(site: Site) -> None:
    async with post(site, review(pod_of(b'{"name":"c"}', 1000))) as reply:
        answer = await reply.json()
    assert answer["response"]["allowed"]


async def test_a_large_pod_that_asks_for_a_share_is_completed_like_a_small_one(site: Site) -> None:
    manifest = pod_manifest("p", memory_mib=3000)
    small = await site.call(
        "webhook",
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "r1", "object": manifest}},
    )
    manifest["spec"]["containers"][0]["env"] = [{"name": "TEXT", "value": "<" * 100_000} for _ in range(10)]
    large = await site.call(
        "webhook",
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "r1", "object": manifest}},
    )
    assert large == small


async def test_a_review_that_is_too_large_is_denied_by_its_uid_before_it_was_sent(site: Site) -> None:
    async with open_raw(site) as (reader, writer), asyncio.timeout(10):
        writer.write(HEAD % (b"Content-Length: %d" % (4 * LARGEST)) + review(b"")[:200])
        text = await reader.readuntil(b"}}")
    assert text.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"uid":"r1","allowed":false' in text
    assert b"larger than 3 MiB" in text


async def test_a_body_that_is_too_large_and_names_no_uid_gets_413(site: Site) -> None:
    async with open_raw(site) as (reader, writer), asyncio.timeout(10):
        writer.write(HEAD % (b"Content-Length: %d" % (4 * LARGEST)) + b" " * 100_000)
        assert await reader.readline() == b"HTTP/1.1 413 Request Entity Too Large\r\n"


async def test_a_large_body_whose_length_nobody_said_is_not_read_to_its_end(site: Site) -> None:
    async with open_raw(site) as (reader, writer), asyncio.timeout(20):
        writer.write(HEAD % b"Transfer-Encoding: chunked")
        begin = review(b"")[:200]
        writer.write(b"%x\r\n%s\r\n" % (len(begin), begin))
        chunk = b"10000\r\n" + b" " * 2**16 + b"\r\n"
        for _ in range(LARGEST // 2**16 + 8):
            writer.write(chunk)
        text = await reader.readuntil(b"}}")
    assert b'"uid":"r1","allowed":false' in text


DEEP = b"[" * 1_000_000 + b"]" * 1_000_000


@pytest.mark.parametrize(
    ("pod", "is_allowed"),
    [(b'{"x":' + DEEP + b',"spec":{"containers":[{}]}}', True), (b'{"spec":' + DEEP + b"}", False)],
    ids=["where nobody reads", "where it is read"],
)
async def test_a_body_nested_deep_is_answered(site: Site, pod: bytes, *, is_allowed: bool) -> None:
    async with post(site, review(pod)) as reply:
        answer = await reply.json()
    assert answer["response"]["allowed"] is is_allowed


async def test_a_denial_is_as_short_as_its_reader_can_use(site: Site) -> None:
    amount = b"9" * 2_000_000
    pod = b'{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1,"nvidia.com/gpumem":"%s"}}}]}}' % amount
    async with post(site, review(pod)) as reply:
        answer = await reply.json()
    assert answer["response"]["allowed"] is False
    assert len(answer["response"]["status"]["message"]) < 5000


async def test_reviews_beyond_those_that_wait_are_denied_and_counted(site: Site) -> None:
    body = review(ATTACKS["annotations"])

    async def ask(session: aiohttp.ClientSession) -> int:
        async with session.post(f"{site.process.url}/webhook", data=io.BytesIO(body), headers=JSON) as reply:
            return int((await reply.json())["response"]["status"]["code"])

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        codes = await asyncio.gather(*(ask(session) for _ in range(40)))
    assert set(codes) == {400, 503}
    assert site.process.parts.webhook.refused == codes.count(503)


async def test_the_connection_of_a_large_review_holds_little_and_serves_on_after_a_denial(site: Site) -> None:
    small = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "r2", "object": {}}}
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        where = f"{site.process.url}/webhook"
        async with session.post(where, data=io.BytesIO(review(b" " * 2 * LARGEST)), headers=JSON) as reply:
            denied = (await reply.json())["response"]
        async with session.post(where, json=small) as reply:
            answered = (await reply.json())["response"]
        transports = [one.transport for one in site.process.parts.listeners.connections["main"].open]
        sockets = [one.get_extra_info("socket") for one in transports if one is not None]
        held = [one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for one in sockets]
    assert (denied["uid"], denied["status"]["code"], answered["uid"]) == ("r1", 413, "r2")
    assert 2 * PIECE_BYTES in held


async def test_a_body_that_does_not_come_is_no_call_that_others_give_way_to(site: Site) -> None:
    async with open_raw(site) as (_, writer):
        writer.write(HEAD % b"Content-Length: 10\r\n")
        await writer.drain()
        connections = site.process.parts.listeners.connections["main"]
        await poll(lambda: len(connections.open) > 0)
        async with post(site, review(b"{}")) as reply:
            assert reply.status == 200
        assert site.process.parts.latencies.underway == 0
