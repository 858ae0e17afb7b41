"""The HTTP routes: bodies, status codes and limits (wire protocol 5). How connections come about is the server's."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from gpuloom.kube.login import is_loopback
from gpuloom.scheduler.bind.verb import BindError
from gpuloom.scheduler.http.pprof import profile_routes
from gpuloom.scheduler.http.timing import Latencies
from gpuloom.scheduler.http.webhook import WebhookEndpoint
from gpuloom.scheduler.observer import BindCall, FilterCall, PreemptCall, PrioritizeCall
from gpuloom.scheduler.preemption.verb import PreemptError
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.serving.addresses import Address
from gpuloom.serving.bodies import TooLargeError, read_body
from gpuloom.serving.callers import Callers
from gpuloom.serving.connections import Handler
from gpuloom.serving.rights import Rights
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import (
    BindResult,
    FilterResult,
    decode_bind_args,
    decode_filter_args,
    encode_priorities,
    encode_result,
)
from gpuloom.wire.preemption import decode_preemption_args, encode_preemption_result

MOST_BYTES = 16 * 2**20
"""Of a call of kube-scheduler: a large cluster has many names of nodes."""
READ_TIMEOUT_S = 60.0
"""So long a client may take to send a body (scheduler 0.2)."""


def _answer_all(handler: Handler) -> Handler:
    return handler


def _answer_near(handler: Handler) -> Handler:
    """Answer kube-scheduler beside us; whoever else reaches the main port could place and bind pods (binding 6)."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if not is_loopback(request.remote or ""):
            raise web.HTTPForbidden(
                text="/filter and /bind are answered on this port only to callers in the same pod: "
                "see --extender-bind and --extender-on-main-port"
            )
        return await handler(request)

    return handle


@dataclass(frozen=True, slots=True)
class Routes:
    """The verbs as HTTP handlers."""

    settings: SchedulerSettings
    webhook: WebhookEndpoint
    filter: FilterCall
    prioritize: PrioritizeCall
    bind: BindCall
    preempt: PreemptCall
    wait_answerable: Callable[[], Awaitable[object]]
    is_ready: Callable[[], bool]
    latencies: Latencies
    rights: Rights

    def main(self, address: Address, callers: Callers | None, *, with_extender: bool) -> list[web.RouteDef]:
        """Return the routes of the main port; the extender's verbs may have a port of their own (binding 6).

        ``callers`` says who may call the webhook, None for everybody.
        """
        review = self.webhook.answer
        webhook = web.post("/webhook", callers.guard(review) if callers else review)
        profiles = profile_routes(None if address.is_loopback else self.rights) if self.settings.profiling else []
        is_open = address.is_loopback or self.settings.extender_on_main_port
        verbs = self._verbs(_answer_all if is_open else _answer_near) if with_extender else ()
        return [webhook, *self._probes(), *verbs, *profiles]

    def extender(self) -> list[web.RouteDef]:
        """Return the routes of the extender's own port."""
        return [*self._verbs(), *self._probes()]

    def _verbs(self, guard: Callable[[Handler], Handler] = _answer_all) -> tuple[web.RouteDef, ...]:
        verbs = {"filter": self._filter, "bind": self._bind, "preempt": self._preempt}
        if self.settings.node_choice == "scheduler":
            verbs["prioritize"] = self._prioritize
        return tuple(web.post(f"/{verb}", guard(self._timed(verb, handler))) for verb, handler in verbs.items())

    def _probes(self) -> tuple[web.RouteDef, ...]:
        return (web.get("/healthz", self._healthz), web.get("/readyz", self._readyz))

    def _timed(self, verb: str, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            with self.latencies.measure(verb):
                return await handler(request)

        return handle

    async def _filter(self, request: web.Request) -> web.Response:
        try:
            args = decode_filter_args(await _read_args(request))
        except (WireError, TooLargeError) as error:
            return _json(encode_result(FilterResult(error=str(error))))
        if args.pod is not None:
            await self.wait_answerable()
        result = await self.filter(args)
        if self.settings.refused_nodes == "unresolvable" and args.nodes is None:
            result = result.as_unresolvable()
        return _json(encode_result(result))

    async def _prioritize(self, request: web.Request) -> web.Response:
        try:
            args = decode_filter_args(await _read_args(request))
        except (WireError, TooLargeError) as error:
            # The reply is a bare list; kube-scheduler does without scores then.
            raise web.HTTPBadRequest(text=str(error)) from error
        return _json(encode_priorities(self.prioritize(args)))

    async def _bind(self, request: web.Request) -> web.Response:
        try:
            args = decode_bind_args(await _read_args(request))
            await self.wait_answerable()
            await self.bind(args)
        except (WireError, TooLargeError, BindError) as error:
            return _json(encode_result(BindResult(error=str(error))))
        return _json(encode_result(BindResult()))

    async def _preempt(self, request: web.Request) -> web.Response:
        try:
            args = decode_preemption_args(await _read_args(request))
        except (WireError, TooLargeError) as error:
            # The reply has no field for errors.
            raise web.HTTPBadRequest(text=str(error)) from error
        await self.wait_answerable()
        try:
            return _json(encode_preemption_result(await self.preempt(args)))
        except PreemptError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _readyz(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.is_ready() else 503)


async def _read_args(request: web.Request) -> bytes:
    body = await read_body(request, MOST_BYTES, READ_TIMEOUT_S)
    if not body:
        raise web.HTTPBadRequest(text="Please send a request body")
    return body


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
