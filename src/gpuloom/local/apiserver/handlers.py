"""From request to answer: which path and method means what.

The rules are elsewhere; here is only HTTP: reading bodies, choosing the form of the answer, status codes.
"""

import datetime as dt
from collections.abc import Awaitable, Callable

from aiohttp import web

from gpuloom.local.apiserver import patch
from gpuloom.local.apiserver.bindings import bind_pod
from gpuloom.local.apiserver.discovery import describe
from gpuloom.local.apiserver.objects import Json
from gpuloom.local.apiserver.pages import StoredPage, read_page
from gpuloom.local.apiserver.requests import (
    BODY_LIMIT_BYTES,
    Target,
    check_shape,
    decode,
    decode_any,
    parse_path,
    read_flag,
    read_number,
    read_object,
)
from gpuloom.local.apiserver.selectors import ObjectSelector, parse_selection
from gpuloom.local.apiserver.statuses import (
    ApiStatusError,
    bad_request,
    deleted,
    method_not_allowed,
    not_supported,
    success,
    too_large,
    unsupported_media_type,
)
from gpuloom.local.apiserver.store import ENCODER
from gpuloom.local.apiserver.streams import Streamer
from gpuloom.local.apiserver.tables import Presentation, choose_presentation
from gpuloom.local.apiserver.writes import Writer

HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/livez"})
OPENAPI_V2_PATH = "/openapi/v2"
PROTOBUF_OPENAPI = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Clients that ask for it write @ for the dot before v1.0, which no media type may have."""
SIMULATED = "the containers of its pods are simulated; gpuloom explain POD says what they were given"
UNSUPPORTED = {
    "log": ("logs", SIMULATED),
    "exec": ("exec", SIMULATED),
    "attach": ("attach", SIMULATED),
    "portforward": ("port-forward", "the containers of its pods are simulated and listen on no port"),
}
Handler = Callable[[web.Request, Target], Awaitable[web.StreamResponse]]


class Api:
    """All resources of one server."""

    def __init__(self, writer: Writer, streamer: Streamer, clock: Callable[[], dt.datetime]) -> None:
        self._writer = writer
        self._store = writer.store
        self._streamer = streamer
        self._clock = clock
        self._collection: dict[str, Handler] = {
            "GET": self._list,
            "POST": self._create,
            "DELETE": self._delete_collection,
        }
        self._object: dict[str, Handler] = {
            "GET": self._get,
            "PUT": self._update,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        self._below: dict[tuple[str, str], Handler] = {
            ("status", "GET"): self._get,
            ("status", "PUT"): self._update,
            ("status", "PATCH"): self._patch,
            ("binding", "POST"): self._bind,
            ("eviction", "POST"): self._evict,
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request that has been let in; raises ApiStatusError."""
        target = parse_path(request.path)
        if target is None:
            return _describe(request)
        if read_flag(request.query, "dryRun"):
            raise not_supported("dry runs", "leave out dryRun, or delete what the request makes")
        handler = self._choose(request.method, target)
        if handler is None:
            raise method_not_allowed()
        return await handler(request, target)

    def _choose(self, method: str, target: Target) -> Handler | None:
        if target.subresource in UNSUPPORTED:
            self._writer.get(target)
            raise not_supported(*UNSUPPORTED[target.subresource])
        if target.subresource:
            return self._below.get((target.subresource, method))
        if target.name:
            return self._object.get(method)
        if target.kind.namespaced and not target.namespace and method != "GET":
            return None
        if method == "DELETE" and "deletecollection" not in target.kind.verbs:
            return None
        return self._collection.get(method)

    async def _list(self, request: web.Request, target: Target) -> web.StreamResponse:
        selection = _selection(request, target)
        presentation = self._presentation(request)
        if read_flag(request.query, "watch"):
            return await self._streamer.watch(request, target.kind, selection, presentation)
        return _respond(presentation.page(target.kind, read_page(self._store, target.kind, selection, request.query)))

    async def _get(self, request: web.Request, target: Target) -> web.StreamResponse:
        presentation = self._presentation(request)
        return _respond(presentation.one(self._writer.get(target)))

    async def _create(self, request: web.Request, target: Target) -> web.StreamResponse:
        presentation = self._presentation(request)
        body = await _read_body(request)
        value = read_object(body, _content_type(request), target.kind, namespace=target.namespace)
        warnings: list[str] = []
        response = _respond(presentation.one(await self._writer.create(target.kind, value, warnings.append)), 201)
        for text in dict.fromkeys(warnings):
            response.headers.add("Warning", _write_warning(text))
        return response

    async def _update(self, request: web.Request, target: Target) -> web.StreamResponse:
        presentation = self._presentation(request)
        body = await _read_body(request)
        value = read_object(body, _content_type(request), target.kind, namespace=target.namespace)
        return _respond(presentation.one(self._writer.change(target, lambda _: value)))

    async def _patch(self, request: web.Request, target: Target) -> web.StreamResponse:
        presentation = self._presentation(request)
        content_type = _content_type(request)
        if content_type == patch.APPLY:
            raise not_supported("server-side apply", "use kubectl apply without --server-side, or kubectl patch")
        if content_type not in (patch.MERGE, patch.JSON, patch.STRATEGIC):
            raise unsupported_media_type("415: Unsupported Media Type", details={})
        body = decode_any(await _read_body(request), content_type, "must be a patch")
        record = self._writer.change(target, lambda value: patch.apply_patch(content_type, value, body))
        return _respond(presentation.one(record))

    async def _delete(self, request: web.Request, target: Target) -> web.StreamResponse:
        options = await _read_delete_options(request)
        record = self._writer.get(target)
        after = self._writer.deleter.delete(record, options)
        if target.kind.returns_deleted or after.value["metadata"].get("deletionTimestamp"):
            return _respond(self._presentation(request).one(after))
        return _respond_json(deleted(target.kind, target.name, record.value["metadata"]["uid"]))

    async def _delete_collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        options = await _read_delete_options(request)
        selection = _selection(request, target)
        presentation = self._presentation(request)
        page = read_page(self._store, target.kind, selection, {})
        for record in page.records:
            self._writer.deleter.delete(record, options)
        return _respond(presentation.page(target.kind, StoredPage(page.records, page.revision)))

    async def _bind(self, request: web.Request, target: Target) -> web.StreamResponse:
        binding = decode(await _read_body(request), _content_type(request), "must be of type Binding")
        _check_metadata(binding, target)
        bind_pod(self._store, namespace=target.namespace, name=target.name, binding=binding, now=self._writer.now())
        return _respond_json(success(code=201), 201)

    async def _evict(self, request: web.Request, target: Target) -> web.StreamResponse:
        eviction = decode(await _read_body(request), _content_type(request), "must be of type Eviction")
        self._writer.deleter.delete(self._writer.get(target), eviction.get("deleteOptions") or {})
        return _respond_json(success(code=201), 201)

    def _presentation(self, request: web.Request) -> Presentation:
        return choose_presentation(request.headers.get("Accept", ""), request.query, self._clock)


def _selection(request: web.Request, target: Target) -> ObjectSelector:
    query = request.query
    return parse_selection(
        target.kind,
        namespace=target.namespace,
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
    )


def _describe(request: web.Request) -> web.StreamResponse:
    if request.path in HEALTH_PATHS:
        return web.Response(text="ok")
    if request.path == OPENAPI_V2_PATH and "+protobuf" in request.headers.get("Accept", ""):
        # kubectl asks so about kinds that v3 has not. The empty message is one that describes no kind.
        return web.Response(body=b"", content_type=PROTOBUF_OPENAPI)
    document = describe(request.path, request.host)
    if document is None:
        return web.Response(text="404 page not found\n", status=404)
    return _respond_json(document)


def _check_metadata(binding: Json, target: Target) -> None:
    """Check the types of a Binding's metadata with the shape of a pod's."""
    check_shape({"metadata": binding.get("metadata")}, target.kind)
    if not isinstance(binding.get("target"), dict | None):
        raise bad_request("Binding cannot be handled: target must be an object")


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def _read_body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(BODY_LIMIT_BYTES) from None


async def _read_delete_options(request: web.Request) -> Json:
    body = await _read_body(request)
    options = decode(body, _content_type(request), "must be of type DeleteOptions") if body else {}
    if "gracePeriodSeconds" in request.query:
        options["gracePeriodSeconds"] = read_number(request.query, "gracePeriodSeconds")
    grace_period_s = options.get("gracePeriodSeconds")
    if not isinstance(grace_period_s, int | None) or not isinstance(options.get("preconditions"), dict | None):
        raise bad_request("DeleteOptions cannot be handled: gracePeriodSeconds must be a number")
    return options


def _write_warning(text: str) -> str:
    """Write a warning as clients read it (RFC 7234 5.5); line ends would end the header."""
    quoted = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _respond(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _respond_json(value: Json, status: int = 200) -> web.Response:
    return _respond(ENCODER.encode(value) + b"\n", status)


def respond_error(error: ApiStatusError, *, retry_after_s: int | None = None) -> web.Response:
    """Make the answer of a failure."""
    response = _respond_json(error.body(), error.code)
    wait_s = retry_after_s or (error.details or {}).get("retryAfterSeconds")
    if wait_s is not None:
        response.headers["Retry-After"] = str(wait_s)
    return response
