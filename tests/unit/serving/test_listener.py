"""Listeners: who may connect, for how long, and what is taken off the line (trust T-09)."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from local.scheduler.clock import poll

from gpuloom.local.apiserver import CertificateAuthority
from gpuloom.serving.addresses import CannotServeError, split_address
from gpuloom.serving.bodies import TooLargeError, read_body
from gpuloom.serving.connections import Limits
from gpuloom.serving.listener import Listening, listen
from gpuloom.serving.presented import Pair, Presented

DEADLINE_S = 60.0
LOOPBACK = split_address("--bind", "127.0.0.1:0")
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(_request: web.Request) -> web.Response:
    return web.Response(text="done")


async def take_long(_request: web.Request) -> web.Response:
    await asyncio.sleep(0.3)
    return web.Response(text="done")


async def count(request: web.Request) -> web.Response:
    try:
        return web.Response(text=str(len(await read_body(request, 1000, 0.1))))
    except TooLargeError as error:
        return web.Response(status=413, text=str(error))


@asynccontextmanager
async def serve(
    limits: Limits, routes: Iterable[web.RouteDef] = (), tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listening]:
    async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as stack:
        routes = routes or [web.get("/", answer), web.post("/", count), web.get("/long", take_long)]
        yield await listen(stack, LOOPBACK, routes, tls, limits=limits)


@asynccontextmanager
async def connect(listening: Listening) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(listening.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


async def send_on(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x" * 10_000)
        await writer.drain()


async def read_end(reader: asyncio.StreamReader) -> bytes:
    """Read until the other side hangs up, however it does."""
    with suppress(ConnectionResetError):
        return await reader.read()
    return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nA: "])
async def test_a_client_that_never_ends_its_headers_is_cut(sent: bytes) -> None:
    async with serve(Limits(header_s=0.05)) as listening, connect(listening) as (reader, writer):
        writer.write(sent)
        assert await read_end(reader) == b""
        assert len(listening.connections) == 0


async def test_a_client_that_never_ends_its_tls_handshake_is_cut() -> None:
    presented = Presented(Pair(*CertificateAuthority.create().issue(["127.0.0.1"])), "test")
    async with serve(Limits(header_s=0.1), tls=presented.context) as listening, connect(listening) as (reader, _):
        assert await read_end(reader) == b""
        await poll(lambda: len(listening.connections) == 0)


async def test_headers_without_end_are_cut_before_their_time_is_over() -> None:
    async with serve(Limits()) as listening, connect(listening) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for number in range(10_000):
                writer.write(b"H%d: %s\r\n" % (number, b"x" * 1000))
                await writer.drain()
        assert b"200 OK" not in await read_end(reader)


@pytest.mark.slow
async def test_a_request_whose_headers_came_in_time_may_take_longer() -> None:
    async with (
        serve(Limits(header_s=0.05)) as listening,
        aiohttp.ClientSession() as session,
        session.get(f"{listening.url}/long") as reply,
    ):
        assert await reply.text() == "done"


async def test_headers_that_never_end_are_cut_after_a_request_that_was_answered_as_well() -> None:
    async with serve(Limits(header_s=0.1)) as listening, connect(listening) as (reader, writer):
        writer.write(ASK)
        await reader.readuntil(b"done")
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await read_end(reader) == b""


async def test_idle_connections_make_room_for_who_asks() -> None:
    limits = Limits(most=8, most_of_one=8)
    async with serve(limits) as listening, AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(connect(listening)) for _ in range(20)]
        reader, writer = await stack.enter_async_context(connect(listening))
        writer.write(ASK)
        assert b"done" in await reader.readuntil(b"done")
        assert len(listening.connections) <= limits.most
        assert await read_end(idle[0][0]) == b""
        assert listening.connections.refused >= 13


async def test_handshakes_that_never_end_make_room_for_who_asks() -> None:
    authority = CertificateAuthority.create()
    presented = Presented(Pair(*authority.issue(["127.0.0.1"])), "test")
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    async with serve(Limits(most=4, most_of_one=4), tls=presented.context) as listening, AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(connect(listening))
        async with aiohttp.ClientSession() as session, session.get(listening.url, ssl=trust) as reply:
            assert await reply.text() == "done"


@pytest.mark.slow
async def test_a_request_under_way_is_not_ended_to_make_room() -> None:
    async with serve(Limits(most=2, most_of_one=2)) as listening, AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        asked = asyncio.ensure_future(session.get(f"{listening.url}/long"))
        await poll(lambda: any(one.is_asking for one in listening.connections.open))
        for _ in range(10):
            await stack.enter_async_context(connect(listening))
        assert (await asked).status == 200


async def test_bodies_that_do_not_come_make_room_for_who_asks() -> None:
    begun = []

    async def wait_for_the_body(request: web.Request) -> web.Response:
        begun.append(request)
        return web.Response(text=str(len(await read_body(request, 1000, DEADLINE_S))))

    routes = [web.get("/", answer), web.post("/", wait_for_the_body)]
    async with serve(Limits(most=4, most_of_one=4), routes) as listening, AsyncExitStack() as stack:
        for _ in range(4):
            _, writer = await stack.enter_async_context(connect(listening))
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
        await poll(lambda: len(begun) == 4)
        async with aiohttp.ClientSession() as session, session.get(listening.url) as reply:
            assert await reply.text() == "done"


async def test_a_body_within_the_limit_is_read() -> None:
    async with (
        serve(Limits()) as listening,
        aiohttp.ClientSession() as session,
        session.post(listening.url, data=b"x" * 1000) as reply,
    ):
        assert await reply.text() == "1000"


async def test_a_body_beyond_the_limit_is_refused_before_it_was_sent() -> None:
    async with serve(Limits()) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx")
        assert await reader.readline() == b"HTTP/1.1 413 Request Entity Too Large\r\n"


async def test_a_body_of_unknown_length_is_refused_at_the_limit() -> None:
    async with serve(Limits()) as listening, connect(listening) as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n%s\r\n" % (b"x" * 1024)
        )
        assert await reader.readline() == b"HTTP/1.1 413 Request Entity Too Large\r\n"


async def test_a_packed_body_is_not_unpacked() -> None:
    import gzip

    packed = gzip.compress(b"x" * 1_000_000)
    assert len(packed) < 1000 * 2
    async with serve(Limits()) as listening, aiohttp.ClientSession() as session:
        headers = {"Content-Encoding": "gzip"}
        async with session.post(listening.url, data=packed[:900], headers=headers) as reply:
            assert await reply.text() == "900"


@pytest.mark.parametrize("head", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
async def test_a_body_that_drips_is_given_up(head: bytes) -> None:
    async with serve(Limits()) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % head)
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"


async def test_who_sent_too_much_reads_the_answer() -> None:
    async with serve(Limits()) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (8 * 2**20))
        for _ in range(128):
            writer.write(b"x" * 2**16)
            await writer.drain()
        assert await reader.readline() == b"HTTP/1.1 413 Request Entity Too Large\r\n"


async def test_who_sends_on_after_the_answer_is_cut() -> None:
    async with serve(Limits(linger_s=0.1)) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx")
        await reader.readline()
        with pytest.raises(ConnectionError):
            await send_on(writer)


async def test_old_tls_is_not_spoken() -> None:
    presented = Presented(Pair(*CertificateAuthority.create().issue(["127.0.0.1"])), "test")
    assert presented.context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("text", ["nonsense", "127.0.0.1:http", "127.0.0.1:99999"])
def test_an_address_that_is_none_names_its_flag(text: str) -> None:
    with pytest.raises(CannotServeError, match="--bind"):
        split_address("--bind", text)


async def test_all_interfaces_are_served_on_one_port() -> None:
    async with AsyncExitStack() as stack:
        listening = await listen(stack, split_address("--bind", ":0"), [web.get("/", answer)], None)
        async with aiohttp.ClientSession() as session, session.get(listening.url) as reply:
            assert await reply.text() == "done"


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_comes_while_its_listener_closes_is_closed(turns: int) -> None:
    with socket.socket() as client:
        async with serve(Limits()) as listening:
            await asyncio.sleep(0)
            client.connect(("127.0.0.1", int(listening.url.rpartition(":")[2])))
            for _ in range(turns):
                await asyncio.sleep(0)
        client.setblocking(False)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 5) == b""
