"""Large bodies are received at a pace, whoever reads them (trust T-02)."""

import asyncio
import os
import socket
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web
from unit.serving.test_listener import connect, serve

from gpuloom.serving.aside import Aside
from gpuloom.serving.bodies import drop_body, read_pieces
from gpuloom.serving.connections import Limits
from gpuloom.serving.frames import HEAD, Verb, pack
from gpuloom.serving.pace import PIECE_BYTES, BodyPace, receive_little

BODY = b"x" * 1_000_000


async def rest_at_once() -> None:
    """Rest no longer than the loop takes to come round."""
    await asyncio.sleep(0)


async def post(handler: object) -> str:
    async with (
        serve(Limits(), [web.post("/", handler)]) as listening,  # type: ignore[arg-type]
        aiohttp.ClientSession() as session,
        session.post(listening.url, data=BODY) as reply,
    ):
        return await reply.text()


async def test_nothing_is_received_while_a_body_rests() -> None:
    pace, states = BodyPace(), set[tuple[bool, bool]]()

    async def take(request: web.Request) -> web.Response:
        assert request.transport is not None

        async def rest() -> None:
            resting = asyncio.ensure_future(pace.rest(request))
            await asyncio.sleep(0)
            is_received = request.transport.is_reading()  # type: ignore[union-attr]
            await resting
            states.add((is_received, request.transport.is_reading()))  # type: ignore[union-attr]

        return web.Response(text=str(sum(map(len, await read_pieces(request, len(BODY), 10, rest)))))

    assert await post(take) == str(len(BODY))
    assert states == {(False, True)}


async def test_who_gives_up_while_resting_keeps_nobody_waiting() -> None:
    pace = BodyPace()

    async def take(request: web.Request) -> web.Response:
        gone = [asyncio.ensure_future(pace.rest(request)) for _ in range(3)]
        await asyncio.sleep(0)
        for one in gone:
            one.cancel()
        await asyncio.wait(gone)
        await pace.rest(request)
        return web.Response(text=str(request.transport is not None and request.transport.is_reading()))

    assert await post(take) == "True"


async def test_the_kernel_holds_little_of_a_large_body() -> None:
    async def take(request: web.Request) -> web.Response:
        receive_little(request)
        connection = request.get_extra_info("socket")
        return web.Response(text=str(connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)))

    # Linux doubles what it is told, for what it needs itself.
    assert await post(take) == str(2 * PIECE_BYTES)


async def test_a_body_that_nobody_reads_is_received_piece_by_piece_to_its_end() -> None:
    rests = []

    async def drop(request: web.Request) -> web.Response:
        async def rest() -> None:
            rests.append(request.content.is_eof())
            await asyncio.sleep(0)

        await drop_body(request, 10, rest)
        return web.Response(text=str(request.content.is_eof()))

    assert await post(drop) == "True"
    assert len(rests) > 1


async def test_who_sends_a_body_that_nobody_reads_for_too_long_is_cut_off() -> None:
    async def drop(request: web.Request) -> web.Response:
        await drop_body(request, 0.05, rest_at_once)
        return web.Response()

    async with serve(Limits(), [web.post("/", drop)]) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert await reader.read() == b""


async def test_a_text_in_pieces_is_read_as_one() -> None:
    aside = Aside(within_s=20.0)
    try:
        assert await aside.read(Verb.MANIFEST, b"a: [1", b"", b", 2]\n", b"b: 3") == b'{"a":[1,2],"b":3}'
    finally:
        await aside.close()


def test_who_reads_aside_goes_after_a_scheduler_of_a_real_time_policy() -> None:
    start = (
        "import os, sys; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5)); "
        "os.execv(sys.executable, [sys.executable, '-m', 'gpuloom.serving.reader'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(pack(Verb.MANIFEST, b"{}"))
        reader.stdin.flush()
        is_started = len(reader.stdout.read(HEAD.size)) == HEAD.size
        if is_started:
            policy, priority = os.sched_getscheduler(reader.pid), os.sched_getparam(reader.pid).sched_priority
        reader.stdin.close()
    if not is_started:
        pytest.skip("this account may not choose a real-time policy")
    assert (policy, priority) == (os.SCHED_FIFO, 1)
