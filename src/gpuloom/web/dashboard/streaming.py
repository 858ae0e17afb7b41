"""Server-sent events: what changed on a page, to one browser, for as long as its owner may see it (binding 6)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from aiohttp import web

from gpuloom.serving.rights import REMEMBERED_S, RightsError, SignInError, User
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, read_asked
from gpuloom.web.dashboard.live import Changes, Live, Stream, TooManyStreamsError
from gpuloom.web.refusals import RefusedError

RECOGNISED_S = 60.0
"""So often a token is looked at again while its owner looks on."""
BEAT_S = 15.0
"""So often something is sent where nothing changes, and rights are looked at."""
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Streams:
    """Answers the streams' requests."""

    def __init__(self, api: WebApi, live: Live, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._live = live
        self._clock = clock

    def answer(self, path: str) -> Handler:
        """Make what answers for the page with a path."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                user, viewer = await self._api.viewer(request)
                asked = read_asked(request, path, viewer)
                state = request.headers.get("Last-Event-ID") or request.query.get("state", "")
                stream = self._live.join(asked, user.name, state)
            except RefusedError as error:
                return web.Response(text=str(error), status=error.code)
            except TooManyStreamsError as error:
                return web.Response(text=str(error), status=503)
            try:
                return await self._serve(request, asked, stream, user)
            finally:
                self._live.leave(asked, stream)

        return handle

    async def _serve(self, request: web.Request, asked: Asked, stream: Stream, user: User) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(request)
        recognised = checked = self._clock()
        told = ""
        # Where nobody can be asked about rights, the browser comes back by itself and is told why.
        with suppress(ConnectionError, RightsError):
            while not stream.over:
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S):
                        await stream.news.wait()
                now = self._clock()
                if now - recognised >= RECOGNISED_S or now - checked >= REMEMBERED_S:
                    is_fresh = now - recognised < RECOGNISED_S
                    if not await self._may_go_on(request, asked, user, is_recognised=is_fresh):
                        await _send(response, "reload", "", b"{}")
                        return response
                    recognised, checked = recognised if is_fresh else now, now
                told = await _tell(response, stream, told)
            if stream.over:
                await _send(response, "over", "", msgspec.json.encode({"why": stream.over}))
        return response

    async def _may_go_on(self, request: web.Request, asked: Asked, user: User, *, is_recognised: bool) -> bool:
        try:
            if not is_recognised:
                token = self._api.entrance.read_token(request)
                again = await self._api.rights.recognise(token, request.remote or "")
                if again.key != user.key:
                    return False
            return await self._api.view(request, user) == asked.viewer
        except SignInError:
            return False


async def _tell(response: web.StreamResponse, stream: Stream, told: str) -> str:
    """Send what is new, at least that the stream is there; ``told`` is the trouble told last. Return that of now."""
    changes, state, trouble = stream.take(), stream.state, stream.trouble
    if changes:
        await _send(response, "change", state, _write(changes))
    if trouble != told:
        await _send(response, "trouble", "", msgspec.json.encode({"why": trouble}))
    elif not changes and not stream.over:
        await response.write(b": still here\n\n")
    return trouble


def _write(changes: Changes) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + html for name, html in changes.items()) + b"}"


async def _send(response: web.StreamResponse, event: str, state: str, data: bytes) -> None:
    identity = f"id: {state}\n" if state else ""
    await response.write(f"{identity}event: {event}\ndata: ".encode() + data + b"\n\n")
