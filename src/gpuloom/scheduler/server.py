"""The HTTP side: routes, status codes and limits (wire protocol 5)."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from gpuloom.scheduler.admission import review_pod
from gpuloom.scheduler.binding import Binder, BindError
from gpuloom.scheduler.filtering import Filterer
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import Review, Verdict, decode_review, encode_review
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import (
    BindResult,
    FilterResult,
    decode_bind_args,
    decode_filter_args,
    encode_result,
)

BODY_LIMIT_BYTES = 16 * 2**20
KEEP_ALIVE_S = 300.0
"""kube-scheduler's idle connections must outlive quiet minutes: a new one costs more than an answer."""

_log = structlog.get_logger(__name__)


class ServerError(Exception):
    """The server cannot start; the message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Routes:
    """The verbs as HTTP handlers."""

    settings: SchedulerSettings
    filterer: Filterer
    binder: Binder
    wait_synced: Callable[[], Awaitable[None]]
    is_ready: Callable[[], bool]

    def application(self) -> web.Application:
        """Make the application with all routes."""
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.add_routes(
            [
                web.post("/filter", self._filter),
                web.post("/bind", self._bind),
                web.post("/webhook", self._webhook),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        return app

    async def _filter(self, request: web.Request) -> web.Response:
        try:
            body = await _read_body(request)
            args = decode_filter_args(body)
        except (WireError, _TooLargeError) as error:
            return _json(encode_result(FilterResult(error=str(error))))
        if args.pod is not None:
            await self.wait_synced()
        return _json(encode_result(self.filterer.filter(args)))

    async def _bind(self, request: web.Request) -> web.Response:
        try:
            args = decode_bind_args(await _read_body(request))
            await self.wait_synced()
            await self.binder.bind(args)
        except (WireError, _TooLargeError, BindError) as error:
            return _json(encode_result(BindResult(error=str(error))))
        return _json(encode_result(BindResult()))

    async def _webhook(self, request: web.Request) -> web.Response:
        try:
            review = await _read_review(request)
        except (WireError, _TooLargeError) as error:
            verdict = Verdict(allowed=False, code=400, message=str(error))
            return _json(encode_review("admission.k8s.io/v1", "", verdict))
        return _json(encode_review(review.api_version, review.uid, review_pod(review, self.settings)))

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _readyz(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.is_ready() else 503)


class _TooLargeError(Exception):
    """The client sent more than we read."""


async def _read_body(request: web.Request) -> bytes:
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _TooLargeError("request body too large") from error
    if not body:
        raise web.HTTPBadRequest(text="Please send a request body")
    return body


async def _read_review(request: web.Request) -> Review:
    if request.content_type != "application/json":
        raise WireError(f"contentType={request.content_type}, expected application/json")
    return decode_review(await _read_body(request))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def load_tls(settings: SchedulerSettings) -> ssl.SSLContext | None:
    """Load certificate and key, None when neither is configured.

    Raises ServerError when only one is, or when they cannot be used.
    """
    if not settings.cert_file and not settings.key_file:
        return None
    if not settings.cert_file or not settings.key_file:
        raise ServerError("HTTPS needs both --cert_file and --key_file: give both or neither")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ServerError(
            f"cannot use certificate {settings.cert_file} with key {settings.key_file}: {error}"
        ) from error
    return context


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``; an empty host means all interfaces.

    Raises ServerError when it is not of that form.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ServerError(f"--http_bind {address!r} is not host:port, for example 127.0.0.1:8080")
    return host.strip("[]"), int(port)


async def listen(app: web.Application, settings: SchedulerSettings) -> tuple[web.AppRunner, str]:
    """Start serving; returns the runner, to be cleaned up by the caller, and the URL.

    Raises ServerError when the address cannot be used; nothing is left running then.
    """
    host, port = split_address(settings.http_bind)
    tls = load_tls(settings)
    runner = web.AppRunner(app, keepalive_timeout=KEEP_ALIVE_S, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        raise ServerError(
            f"cannot listen on {settings.http_bind}: {error.strerror or error}; choose another --http_bind"
        ) from error
    bound = runner.addresses[0][1]
    return runner, f"{'https' if tls else 'http'}://{host or '127.0.0.1'}:{bound}"
