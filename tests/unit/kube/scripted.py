"""An API server that gives the answers it was told to, in order, for faults that no real one produces on demand."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from gpuloom.kube import Credentials, KubeClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    certificate: Any = None


@dataclass
class FakeTime:
    """Time that passes only while somebody sleeps; chance gives the highest or lowest number."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class ScriptedServer:
    """Gives ``answers`` one after the other, then ``otherwise``: streams that deliver nothing and stay open.

    ``held`` is set with the first request after the script.
    """

    def __init__(self, *answers: Answer, otherwise: Answer | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._answers = deque(answers)
        self._otherwise = otherwise or stream(hold=True)
        self._tls = tls
        self.held = asyncio.Event()
        self._arrivals = asyncio.Condition()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def answer_next(self, *answers: Answer) -> None:
        self._answers.extend(answers)

    def answer_first(self, answer: Answer) -> None:
        self._answers.appendleft(answer)

    async def wait_for_requests(self, count: int) -> None:
        async with asyncio.timeout(60), self._arrivals:
            await self._arrivals.wait_for(lambda: len(self.seen) >= count)

    def client(self, token: str = "", **options: Any) -> KubeClient:
        return KubeClient(Credentials.for_token(self.url, token), **options)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.seen.append(
            Seen(
                request.method,
                request.raw_path.split("?")[0],
                dict(request.query),
                dict(request.headers),
                json.loads(text) if text else None,
                request.get_extra_info("peercert"),
            )
        )
        async with self._arrivals:
            self._arrivals.notify_all()
        if self._answers:
            return await self._answers.popleft()(request)
        self.held.set()
        return await self._otherwise(request)


def reply(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def raw_reply(body: bytes, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status)

    return answer


def failure(status: int, *, reason: str = "", message: str = "no", headers: dict[str, str] | None = None) -> Answer:
    return reply(status_object(status, reason=reason, message=message), status, headers)


def status_object(code: int, *, reason: str = "", message: str = "no") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }


def stream(*lines: object, hold: bool = False) -> Answer:
    """Answer with a watch of these events (bytes are sent as they are); ``hold`` keeps it open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if hold:
            await asyncio.Event().wait()
        return response

    return answer


def drop() -> Answer:
    """Close the connection without an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def break_off(line: object) -> Answer:
    """Send one event of a watch and half of the next chunk, then break the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps(line).encode() + b"\n")
        assert request.transport is not None
        request.transport.write(b"ff\r\n{")
        request.transport.close()
        return response

    return answer


def hang() -> Answer:
    """Never answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def pod(name: str, version: int | str = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec}


def bad_pod(name: str, version: int | str = 1) -> dict[str, Any]:
    """A pod whose node name is a number, which no API server allows."""
    return pod(name, version, nodeName=7)


def pod_list(*pods: object, version: int | str = 100, token: str = "") -> Answer:
    return reply({"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": pods})


def change(kind: str, item: object) -> dict[str, Any]:
    return {"type": kind, "object": item}


def bookmark(version: int) -> dict[str, Any]:
    return change("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
