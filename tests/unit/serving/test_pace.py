"""Large bodies are received at a pace, whoever reads them (trust T-02)."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from unit.serving.test_listener import connect, serve

from gpuloom.local.apiserver import CertificateAuthority
from gpuloom.serving.aside import Aside
from gpuloom.serving.bodies import Receive, drop_body, read_pieces
from gpuloom.serving.connections import Limits
from gpuloom.serving.frames import HEAD, Verb, pack
from gpuloom.serving.pace import PIECE_BYTES, BodyPace, receive_little
from gpuloom.serving.presented import Pair, Presented

BODY = b"x" * 1_000_000


def find_children() -> set[int]:
    """Return the processes that this thread has started: also those of tests before, which still run."""
    children = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children").read_text("ascii")
    return set(map(int, children.split()))


async def post(handler: object) -> str:
    async with (
        serve(Limits(), [web.post("/", handler)]) as listening,  # type: ignore[arg-type]
        aiohttp.ClientSession() as session,
        session.post(listening.url, data=BODY) as reply,
    ):
        return await reply.text()


async def take_all(request: web.Request, receive: Receive) -> web.Response:
    """Receive a whole body in turns; answer with its size."""
    with receive_little(request):
        return web.Response(text=str(sum(map(len, await read_pieces(request, len(BODY), 10, receive)))))


async def test_nothing_is_received_between_the_turns_of_a_body() -> None:
    pace, states = BodyPace(), set[tuple[bool, bool]]()

    async def take(request: web.Request) -> web.Response:
        async def receive() -> bytes:
            piece = await pace.receive(request)
            assert request.transport is not None
            states.add((request.content.is_eof(), request.transport.is_reading()))
            return piece

        return await take_all(request, receive)

    assert await post(take) == str(len(BODY))
    assert states == {(False, False), (True, True)}


async def test_one_body_is_received_at_a_time() -> None:
    pace, coming, counts = BodyPace(), list[web.Request](), set[int]()

    def is_received(request: web.Request) -> bool:
        # After its body, it is heard whether the sender hangs up.
        return not request.content.is_eof() and request.transport is not None and request.transport.is_reading()

    async def take(request: web.Request) -> web.Response:
        coming.append(request)

        async def receive() -> bytes:
            receiving = asyncio.ensure_future(pace.receive(request))
            while not receiving.done():
                await asyncio.sleep(0)
                counts.add(sum(map(is_received, coming)))
            return await receiving

        return await take_all(request, receive)

    async with (
        serve(Limits(), [web.post("/", take)]) as listening,
        aiohttp.ClientSession() as session,
    ):
        replies = await asyncio.gather(*(session.post(listening.url, data=BODY) for _ in range(3)))
        assert [await one.text() for one in replies] == [str(len(BODY))] * 3
    assert counts == {0, 1}


async def test_a_body_of_which_nothing_comes_keeps_nobody_waiting() -> None:
    pace = BodyPace()

    async def take(request: web.Request) -> web.Response:
        return await take_all(request, partial(pace.receive, request))

    async with (
        serve(Limits(), [web.post("/", take)]) as listening,
        connect(listening) as (_, slow),
        aiohttp.ClientSession() as session,
    ):
        slow.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        async with session.post(listening.url, data=BODY) as reply:
            assert await reply.text() == str(len(BODY))


async def test_who_gives_up_a_turn_keeps_nobody_waiting() -> None:
    pace = BodyPace()

    async def take(request: web.Request) -> web.Response:
        with receive_little(request):
            gone = [asyncio.ensure_future(pace.receive(request)) for _ in range(3)]
            await asyncio.sleep(0)
            for one in gone:
                one.cancel()
            await asyncio.wait(gone)
            await pace.receive(request)
        return web.Response(text=str(request.transport is not None and request.transport.is_reading()))

    assert await post(take) == "True"


async def test_the_kernel_holds_little_of_a_large_body() -> None:
    async def take(request: web.Request) -> web.Response:
        with receive_little(request):
            connection = request.get_extra_info("socket")
        return web.Response(text=str(connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)))

    # Linux doubles what it is told, for what it needs itself.
    assert await post(take) == str(2 * PIECE_BYTES)


async def test_little_of_a_large_body_waits_to_be_decrypted() -> None:
    pace, held = BodyPace(), list[int]()
    authority = CertificateAuthority.create()
    presented = Presented(Pair(*authority.issue(["127.0.0.1"])), "test")
    trust = ssl.create_default_context(cadata=authority.pem.decode())

    async def take(request: web.Request) -> web.Response:
        transport: Any = request.transport

        async def receive() -> bytes:
            held.append(transport.get_read_buffer_size())
            return await pace.receive(request)

        return await take_all(request, receive)

    async with (
        serve(Limits(), [web.post("/", take)], presented.context) as listening,
        aiohttp.ClientSession() as session,
        session.post(listening.url, data=BODY, ssl=trust) as reply,
    ):
        assert await reply.text() == str(len(BODY))
    # What may wait, and one read of the kernel.
    assert max(held) <= 64 * 1024 + 256 * 1024


async def test_a_body_that_nobody_reads_is_received_piece_by_piece_to_its_end() -> None:
    pieces = []

    async def drop(request: web.Request) -> web.Response:
        async def receive() -> bytes:
            pieces.append(await request.content.readany())
            return pieces[-1]

        await drop_body(request, 10, receive)
        return web.Response(text=str(request.content.is_eof()))

    assert await post(drop) == "True"
    assert len(pieces) > 2
    assert sum(map(len, pieces)) == len(BODY)


async def test_who_sends_a_body_that_nobody_reads_for_too_long_is_cut_off() -> None:
    async def drop(request: web.Request) -> web.Response:
        await drop_body(request, 0.05, request.content.readany)
        return web.Response()

    async with serve(Limits(), [web.post("/", drop)]) as listening, connect(listening) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert await reader.read() == b""


async def test_others_have_their_turn_while_a_long_text_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    aside, rounds, written = Aside(within_s=20.0), 0, Counter[int]()
    write = asyncio.StreamWriter.write

    def note(self: asyncio.StreamWriter, data: bytes) -> None:
        written[rounds] += len(data)
        write(self, data)

    monkeypatch.setattr(asyncio.StreamWriter, "write", note)
    try:
        reading = asyncio.ensure_future(aside.read(Verb.MANIFEST, b"a: 1\n", b"#" * 1_000_000))
        while not reading.done():
            rounds += 1
            await asyncio.sleep(0)
        assert await reading == b'{"a":1}'
    finally:
        await aside.close()
    assert sum(written.values()) > 1_000_000
    assert max(written.values()) <= 132_000


async def test_an_interrupt_from_the_keyboard_does_not_reach_who_reads_aside() -> None:
    aside, before = Aside(within_s=20.0), find_children()
    try:
        await aside.read(Verb.MANIFEST, b"{}")
        (reader,) = find_children() - before
        groups, sessions = {os.getpgid(reader), os.getpgid(0)}, {os.getsid(reader), os.getsid(0)}
    finally:
        await aside.close()
    assert len(groups) == 2
    # Not a session of its own, to which the kernel may give as many turns as to all of the scheduler's.
    assert len(sessions) == 1


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
