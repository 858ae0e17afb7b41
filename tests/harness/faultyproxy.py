"""A proxy between a client and the real API server, which makes writes fail, watches lag and connections break."""

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from gpuloom.local.apiserver.kubeconfig import write_kubeconfig

WRITES = frozenset({"POST", "PATCH", "PUT", "DELETE"})
HOP_HEADERS = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})

GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
EXPIRED = json.dumps({"type": "ERROR", "object": {**GONE, "message": "too old resource version"}}).encode() + b"\n"


@dataclass(slots=True)
class Faults:
    """What goes wrong; shares are between 0 and 1 of all writes.

    refused_share  answered 409 or 429 (some with a delay to obey), and not carried out
    lost_share     carried out, but the connection breaks instead of an answer
    watch_lag_s    so much later than the API server tells it, a watch tells what happened
    """

    refused_share: float = 0.0
    lost_share: float = 0.0
    watch_lag_s: float = 0.0


class FaultyProxy:
    """The proxy as an async context manager: `url`, `faults` to change at any time, `counts` of what happened."""

    def __init__(self, upstream: str, ca_file: Path, token: str, *, seed: int = 1):
        """Prepare a proxy to the API server at `upstream`, for the user with this token."""
        self.url = ""
        self.faults = Faults()
        self.counts: Counter[str] = Counter()
        self._upstream = upstream
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._random = random.Random(seed)
        self._watches: set[asyncio.Transport] = set()
        self._pieces: set[asyncio.Queue[tuple[float, bytes | None]]] = set()
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
            self._session = await stack.enter_async_context(
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
            )
            app = web.Application(client_max_size=2**26)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        await self._stack.aclose()

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig file for the client that is to suffer."""
        write_kubeconfig(path, url=self.url, ca_pem=b"", token=self._token)

    def cut_watches(self) -> int:
        """Break the connections of all watches; return how many."""
        cut = len(self._watches)
        for transport in self._watches:
            transport.abort()
        self._watches.clear()
        self.counts["watches cut"] += cut
        return cut

    def expire_watches(self) -> int:
        """Tell all watches that their version is too old (410), as after a compaction; return how many."""
        told = 0
        for pieces in self._pieces:
            pieces.put_nowait((asyncio.get_running_loop().time(), EXPIRED))
            told += 1
        self.counts["watches expired"] += told
        return told

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        is_write = request.method in WRITES
        if is_write and self._random.random() < self.faults.refused_share:
            return self._refuse()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS}
        try:
            async with self._session.request(
                request.method,
                self._upstream + request.path_qs,
                data=body or None,
                headers=headers,
                allow_redirects=False,
            ) as reply:
                if request.query.get("watch") == "true" and reply.status == 200:
                    return await self._stream(request, reply)
                answer = await reply.read()
        except (aiohttp.ClientError, OSError):
            return self._break(request)
        if is_write and self._random.random() < self.faults.lost_share:
            self.counts["answers lost"] += 1
            return self._break(request)
        kept = {name: value for name, value in reply.headers.items() if name.lower() not in HOP_HEADERS}
        return web.Response(status=reply.status, body=answer, headers=kept)

    def _refuse(self) -> web.Response:
        """Answer as an API server in distress does."""
        status, reason, headers = self._random.choice(
            (
                (409, "Conflict", {}),
                (429, "TooManyRequests", {"Retry-After": "1"}),
                (429, "TooManyRequests", {}),
            )
        )
        self.counts[f"answered {status}"] += 1
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
        return web.json_response({**body, "message": "a fault was injected"}, status=status, headers=headers)

    def _break(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    async def _stream(self, request: web.Request, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        transport = request.transport
        if transport is None:
            return stream
        self._watches.add(transport)
        try:
            async for chunk in self._late(reply):
                await stream.write(chunk)
        except (aiohttp.ClientError, OSError):
            transport.abort()
        finally:
            self._watches.discard(transport)
        return stream

    async def _late(self, reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Give what the API server sends, each piece as late as the faults say."""
        clock = asyncio.get_running_loop().time
        waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        last = b"\n"

        async def read() -> None:
            try:
                async for chunk in reply.content.iter_any():
                    waiting.put_nowait((clock(), chunk))
            finally:
                waiting.put_nowait((clock(), None))

        reading = asyncio.create_task(read())
        self._pieces.add(waiting)
        try:
            while True:
                came_s, chunk = await waiting.get()
                if chunk is None:
                    break
                if chunk is EXPIRED:
                    # In the middle of a line it would be read as a part of it: the break alone is fault enough then.
                    if last.endswith(b"\n"):
                        yield chunk
                    break
                last = chunk
                if (left_s := came_s + self.faults.watch_lag_s - clock()) > 0:
                    await asyncio.sleep(left_s)
                yield chunk
        finally:
            self._pieces.discard(waiting)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
