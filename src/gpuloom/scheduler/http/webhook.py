"""Reads the webhook's bodies: small ones here, large ones aside; too large ones are denied unread.

So a review costs the event loop milliseconds whatever its body, and calls of kube-scheduler go on beside (trust T-02).
A denial is an answer with the review's uid, as far as that is known: the API server takes anything else for a webhook
that failed, and lets the pod through where its failure policy says so.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from gpuloom.scheduler.http.timing import Latencies
from gpuloom.scheduler.observer import ReviewCall
from gpuloom.serving.aside import Aside, BadTextError, ReaderBusyError
from gpuloom.serving.bodies import TooLargeError, drop_body, read_body, read_pieces
from gpuloom.serving.connections import LINGER_S
from gpuloom.serving.frames import Verb
from gpuloom.serving.pace import BodyPace, receive_little
from gpuloom.wire.admission import Review, Verdict, decode_review, encode_review, find_uid
from gpuloom.wire.errors import WireError

MOST_BYTES = 3 * 2**20
"""The API server takes no larger body itself."""
QUICK_BYTES = 32 * 1024
"""Up to here reading takes less time than handing over, whatever is in it."""
READ_TIMEOUT_S = 10.0
"""So long the API server waits for an answer."""
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
    latencies: Latencies
    refused: int = 0
    _large: int = field(default=0)
    _pace: BodyPace = field(default_factory=BodyPace)
    # Of its own: what nobody reads does not keep others waiting.
    _pace_of_denied: BodyPace = field(default_factory=BodyPace)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one."""
        try:
            review = await self._read(request)
        except ReviewRefusedError as error:
            denial = _deny(error)
        else:
            # Whoever sends a body slowly, which takes no token, makes nobody give way and no review look slow.
            with self.latencies.measure("webhook"):
                return _reply(encode_review(review.api_version, review.uid, self.review(review)))
        # Only now, when what was read of it is no longer held.
        if not request.content.is_eof():
            with receive_little(request):
                await self._send(request, denial)
        return denial

    async def _read(self, request: web.Request) -> Review:
        if request.content_type != "application/json":
            raise ReviewRefusedError(400, f"contentType={request.content_type}, expected application/json")
        if request.content_length is None or request.content_length > QUICK_BYTES:
            with receive_little(request):
                return await self._read_large(request)
        return _decode(await read_body(request, QUICK_BYTES, READ_TIMEOUT_S))

    async def _read_large(self, request: web.Request) -> Review:
        if self._large >= MOST_LARGE:
            self.refused += 1
            raise ReviewRefusedError(503, "too many large reviews at once: try again", await self._begin(request))
        self._large += 1
        pieces: Sequence[bytes] = ()
        try:
            pieces = await read_pieces(request, MOST_BYTES, READ_TIMEOUT_S, partial(self._pace.receive, request))
            return _decode(await self._trim(pieces))
        except TooLargeError as error:
            raise ReviewRefusedError(
                413, "pod larger than 3 MiB: gpuloom's webhook reads no more, make it smaller", error.beginning
            ) from error
        except ReaderBusyError as error:
            self.refused += 1
            raise ReviewRefusedError(503, str(error), pieces[0]) from error
        except BadTextError as error:
            raise ReviewRefusedError(400, str(error), pieces[0]) from error
        finally:
            self._large -= 1

    async def _begin(self, request: web.Request) -> bytes:
        """Return the beginning of a body that is not read, empty when it does not come soon."""
        try:
            async with asyncio.timeout(1):
                return await self._pace_of_denied.receive(request)
        except TimeoutError:
            return b""

    async def _trim(self, pieces: Sequence[bytes]) -> bytes:
        """Return what is read of a review; a short one costs less as it is."""
        if sum(map(len, pieces)) <= QUICK_BYTES:
            return b"".join(pieces)
        return await self.aside.read(Verb.REVIEW, *pieces)

    async def _send(self, request: web.Request, denial: web.Response) -> None:
        """Answer, and let what is still sent of the body come and go."""
        await denial.prepare(request)
        await denial.write_eof()
        await drop_body(request, LINGER_S, partial(self._pace_of_denied.receive, request))


def _decode(body: bytes) -> Review:
    try:
        return decode_review(body)
    except WireError as error:
        raise ReviewRefusedError(400, str(error), body) from error


def _deny(error: ReviewRefusedError) -> web.Response:
    version, uid = find_uid(error.beginning[:_BEGINNING])
    if not uid and error.code == 413:
        return web.HTTPRequestEntityTooLarge(max_size=MOST_BYTES, actual_size=MOST_BYTES + 1, text=str(error))
    verdict = Verdict(allowed=False, code=error.code, message=str(error))
    return _reply(encode_review(version or _VERSION, uid, verdict))


def _reply(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
