"""Reads the webhook's bodies: small ones here, large ones aside; too large ones are denied unread.

So a review costs the event loop milliseconds whatever its body, and calls of kube-scheduler go on beside (trust T-02).
A denial is an answer with the review's uid, as far as that is known: the API server takes anything else for a webhook
that failed, and lets the pod through where its failure policy says so.
"""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from gpuloom.scheduler.observer import ReviewCall
from gpuloom.serving.aside import Aside, BadTextError, ReaderBusyError
from gpuloom.serving.bodies import TooLargeError, read_body
from gpuloom.serving.frames import Verb
from gpuloom.wire.admission import Review, Verdict, decode_review, encode_review, find_uid
from gpuloom.wire.errors import WireError

MOST_BYTES = 3 * 2**20
"""The API server takes no larger body itself."""
QUICK_BYTES = 32 * 1024
"""Up to here reading takes less time than handing over, whatever is in it."""
READ_TIMEOUT_S = 10.0
"""So long the API server waits for an answer."""
REST_S = 0.002
"""Between two pieces of large bodies, of all that come at once."""
MOST_LARGE = 16
"""Large bodies that are taken off the line at a time."""
_VERSION = "admission.k8s.io/v1"
_BEGINNING = 4096
"""Where a review says its uid."""


class ReviewRefusedError(Exception):
    """A review that is not looked at; ``beginning`` is what is known of its body."""

    def __init__(self, code: int, message: str, beginning: bytes = b"") -> None:
        super().__init__(message)
        self.code = code
        self.beginning = beginning


@dataclass(slots=True)
class WebhookEndpoint:
    """Answers reviews; ``refused`` counts those that were not looked at because there were too many."""

    review: ReviewCall
    aside: Aside
    refused: int = 0
    _large: int = field(default=0)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one."""
        try:
            review = await self._read(request)
        except ReviewRefusedError as error:
            return _deny(error)
        return _reply(encode_review(review.api_version, review.uid, self.review(review)))

    async def _read(self, request: web.Request) -> Review:
        if request.content_type != "application/json":
            raise ReviewRefusedError(400, f"contentType={request.content_type}, expected application/json")
        if request.content_length is None or request.content_length > QUICK_BYTES:
            return await self._read_large(request)
        return _decode(await read_body(request, QUICK_BYTES, READ_TIMEOUT_S))

    async def _read_large(self, request: web.Request) -> Review:
        if self._large >= MOST_LARGE:
            self.refused += 1
            raise ReviewRefusedError(503, "too many large reviews at once: try again", await _begin(request))
        self._large += 1
        try:
            body = await read_body(request, MOST_BYTES, READ_TIMEOUT_S, self._rest)
            return _decode(body if len(body) <= QUICK_BYTES else await self.aside.read(Verb.REVIEW, body))
        except TooLargeError as error:
            raise ReviewRefusedError(
                413, "pod larger than 3 MiB: gpuloom's webhook reads no more, make it smaller", error.beginning
            ) from error
        except ReaderBusyError as error:
            self.refused += 1
            raise ReviewRefusedError(503, str(error), body[:_BEGINNING]) from error
        except BadTextError as error:
            raise ReviewRefusedError(400, str(error), body[:_BEGINNING]) from error
        finally:
            self._large -= 1

    async def _rest(self) -> None:
        """Let other calls go first: all large bodies together are read piece by piece."""
        async with self._turn:
            await asyncio.sleep(REST_S)


def _decode(body: bytes) -> Review:
    try:
        return decode_review(body)
    except WireError as error:
        raise ReviewRefusedError(400, str(error), body[:_BEGINNING]) from error


async def _begin(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(1):
            return await request.content.readany()
    except TimeoutError:
        return b""


def _deny(error: ReviewRefusedError) -> web.Response:
    version, uid = find_uid(error.beginning)
    if not uid and error.code == 413:
        raise web.HTTPRequestEntityTooLarge(max_size=MOST_BYTES, actual_size=MOST_BYTES + 1, text=str(error))
    verdict = Verdict(allowed=False, code=error.code, message=str(error))
    return _reply(encode_review(version or _VERSION, uid, verdict))


def _reply(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
