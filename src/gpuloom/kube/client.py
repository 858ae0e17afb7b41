"""The verbs of a Kubernetes API: get, list, patch, create, delete, bind, watch.

Every call has a deadline, every failure is an :class:`~gpuloom.kube.errors.ApiError` that names verb and object.
Objects come out as partial structs and must never be sent back.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import msgspec

from gpuloom.kube.connections import HttpConnections
from gpuloom.kube.credentials import Credentials
from gpuloom.kube.errors import ExpiredError, TooManyRequestsError, UnreachableError, UnreadableError
from gpuloom.kube.lists import ListOptions, ListPage, decode_page
from gpuloom.kube.rate_limiter import RateLimit, RateLimiter
from gpuloom.kube.resources import PODS, Resource, T
from gpuloom.kube.stream import WatchLine, read_lines
from gpuloom.kube.transport import BODY_LIMIT_BYTES, HttpRequest, Transport, go_on
from gpuloom.wire.depth import BAD_JSON, decode

WRITE_DEADLINE_S = 4.0
"""Longest time for a write whose outcome must be known soon; after that the outcome is unknown (binding 2.1)."""

PAGE_BYTES = 64 * 2**20
"""Longest page of a list that is read page by page: five hundred objects of usual size have a tenth of it. Whoever may
create objects chooses how large they are, and a process has a limit of memory."""
_LIST_RESTARTS = 3
_RETRY_FLOOR_S = 0.1


def log_left_out(target: str, why: str) -> None:
    """Log that a list has an object that cannot be read."""
    import structlog  # noqa: PLC0415 - commands that people wait for do without

    structlog.get_logger(__name__).warning("object left out of a list", target=target, error=why)


class KubeClient:
    """The way to one API server; an async context manager.

    After a 429 with ``Retry-After`` a call waits and tries again, as long as its deadline allows. ``timeout_s`` is the
    deadline of calls without a shorter one. Waiting for a turn under ``rate_limit`` is not part of it. A write that may
    be out of date after such a wait takes a ``recheck``, which is called right before the write and raises to stop it.
    ``on_left_out`` is told of objects in lists that cannot be read. ``connections`` are those of a pool unless given.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout_s: float = 30.0,
        rate_limit: RateLimit = RateLimit(),  # noqa: B008 - frozen
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_left_out: Callable[[str, str], None] = log_left_out,
        connections: HttpConnections | None = None,
    ) -> None:
        self._on_left_out = on_left_out
        self._transport = Transport(credentials, connections or _make_pool())
        self._timeout_s = timeout_s
        self._pace = RateLimiter(rate_limit, sleep=sleep)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._transport.__aexit__(*exc_info)

    def with_own_budget(self) -> Self:
        """Return the same client with its own rate limit, so that other calls do not use it up."""
        client = copy(self)
        client._pace = self._pace.renew()  # noqa: SLF001 - our own copy
        return client

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "", timeout_s: float | None = None) -> T:
        """Read one object; raises :class:`~gpuloom.kube.errors.NotFoundError` and the like."""
        target = resource.describe(namespace=namespace, name=name)
        path = resource.path(namespace=namespace, name=name)
        request = HttpRequest("get", target, "GET", path)
        return _decode(resource, await self._patiently(request, timeout_s), request)

    async def token(self) -> str:
        """Return the bearer token that requests present, empty without one; raises CredentialsError."""
        return await self._transport.token()

    async def call(
        self,
        method: str,
        path: str,
        target: str,
        *,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        most_bytes: int = BODY_LIMIT_BYTES,
        recheck: Callable[[], None] = go_on,
    ) -> bytes:
        """Call a path that belongs to no object, such as a service behind the API server, and return the answer.

        ``target`` is its name in messages; ``recheck`` is called right before. An answer of more than ``most_bytes`` is
        none. Raises :class:`~gpuloom.kube.errors.ApiError`.
        """
        verb = "read" if method == "GET" else "ask"
        request = HttpRequest(
            verb, target, method, path, query or {}, body, headers=headers or {}, most_bytes=most_bytes
        )
        return await self._patiently(request, timeout_s, recheck)

    async def list_all(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int | None = None,
        must_read_all: bool = False,
    ) -> tuple[list[T], str]:
        """Return all objects, read page by page, and the list's version; leave out what cannot be read, and say so.

        A list whose continue token expires is started again, three times at most. With ``must_read_all``, raises
        :class:`~gpuloom.kube.errors.UnreadableError` when an object cannot be read: for callers that treat a missing
        object as gone.
        """
        selection = ListOptions(namespace, label_selector, field_selector)
        for _ in range(_LIST_RESTARTS):
            try:
                return await self._list_once(resource, selection, page_size, must_read_all=must_read_all)
            except ExpiredError as error:
                expired = error
        raise expired

    async def list_page(
        self, resource: Resource[T], selection: ListOptions, *, limit: int, continue_token: str = ""
    ) -> ListPage[T]:
        """Read one page of at most ``limit`` objects, once, within the client's deadline.

        Raises :class:`~gpuloom.kube.errors.TooLongError` when these are more than PAGE_BYTES: ask for fewer.
        """
        query = {**selection.query(), "limit": str(limit)}
        if continue_token:
            query["continue"] = continue_token
        request = replace(_collection_request("list", resource, selection, query), most_bytes=PAGE_BYTES)
        await self._pace.keep()
        body = await self._within(self._timeout_s, request, self._transport.send(request))
        return decode_page(resource, body, request)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
        timeout_s: float | None = None,
        lists_by_key: bool = False,
        recheck: Callable[[], None] = go_on,
    ) -> T:
        """Merge ``body`` into an object (JSON merge patch) and return the result.

        A list replaces the existing one; with ``lists_by_key`` Kubernetes merges it by its key, such as ``name``
        (strategic merge patch). With ``uid`` another object of the same name is left alone (422). With
        ``resource_version`` only that version is changed, otherwise :class:`~gpuloom.kube.errors.ConflictError`.
        """
        if uid or resource_version:
            same = {"uid": uid, "resourceVersion": resource_version}
            known = {key: value for key, value in same.items() if value}
            body = {**body, "metadata": {**(body.get("metadata") or {}), **known}}
        request = HttpRequest(
            "patch",
            resource.describe(namespace=namespace, name=name),
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            body=msgspec.json.encode(body),
            content_type=f"application/{'strategic-merge' if lists_by_key else 'merge'}-patch+json",
        )
        return _decode(resource, await self._patiently(request, timeout_s, recheck), request)

    async def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        timeout_s: float | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object, or a ``subresource`` of the object ``name``; ``apiVersion`` and ``kind`` are added.

        With ``dry_run`` the API server asks everybody as always, webhooks too, and stores nothing. Raises
        :class:`~gpuloom.kube.errors.AlreadyExistsError` if the name is taken.
        """
        if not subresource:
            body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        own_name = name or (body.get("metadata") or {}).get("name", "")
        path = resource.path(namespace=namespace, name=name if subresource else "", subresource=subresource)
        target = resource.describe(namespace=namespace, name=own_name)
        query = {"dryRun": "All"} if dry_run else {}
        request = HttpRequest("create", target, "POST", path, query, body=msgspec.json.encode(body))
        return _decode(resource, await self._patiently(request, timeout_s), request)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str = "",
        grace_period_s: int | None = None,
        uid: str = "",
        timeout_s: float | None = None,
        recheck: Callable[[], None] = go_on,
    ) -> None:
        """Delete one object; ``None`` leaves the grace period to the object.

        With ``uid`` another object of the same name is left alone: :class:`~gpuloom.kube.errors.ConflictError`.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        if uid:
            body["preconditions"] = {"uid": uid}
        target = resource.describe(namespace=namespace, name=name)
        path = resource.path(namespace=namespace, name=name)
        request = HttpRequest("delete", target, "DELETE", path, body=msgspec.json.encode(body))
        await self._patiently(request, timeout_s, recheck)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
        timeout_s: float | None = None,
        recheck: Callable[[], None] = go_on,
    ) -> None:
        """Bind the pod with exactly this ``uid`` to ``node`` and set its annotations in the same step (binding 1).

        Only API servers with that feature copy labels.
        """
        metadata = {"namespace": namespace, "name": name, "uid": uid}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, "annotations": annotations, "labels": labels},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(namespace=namespace, name=name, subresource="binding")
        target = PODS.describe(namespace=namespace, name=name)
        request = HttpRequest("bind", target, "POST", path, body=msgspec.json.encode(body))
        await self._patiently(request, timeout_s, recheck)

    async def watch(
        self, resource: Resource[Any], selection: ListOptions, *, version: str, timeout_s: int, silence_s: float
    ) -> AsyncGenerator[WatchLine, None]:
        """Yield the changes since ``version``, objects still as JSON, until the server ends the stream.

        The server ends the stream after ``timeout_s``; the stream fails when nothing arrives for ``silence_s``. Close
        it with ``aclosing``. Raises :class:`~gpuloom.kube.errors.ApiError`; an ERROR event is a line like any other.
        """
        query = {
            **selection.query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_s),
        }
        request = _collection_request("watch", resource, selection, query)
        await self._pace.keep()
        async with self._transport.open(request, silence_s=silence_s) as reply:
            async for line in read_lines(reply.content, request):
                yield line

    async def _list_once(
        self, resource: Resource[T], selection: ListOptions, page_size: int | None, *, must_read_all: bool
    ) -> tuple[list[T], str]:
        items: list[T] = []
        limit = page_size or resource.page_size
        token = ""
        while True:
            query = {**selection.query(), "limit": str(limit), **({"continue": token} if token else {})}
            request = _collection_request("list", resource, selection, query)
            page = decode_page(resource, await self._patiently(request, None), request)
            items += page.items
            for _, why in page.unreadable:
                if must_read_all:
                    raise UnreadableError(request.verb, request.target, 0, f"an object cannot be read: {why}")
                self._on_left_out(request.target, why)
            token = page.continue_token
            if not token:
                return items, page.version

    async def _patiently(
        self, request: HttpRequest, timeout_s: float | None, recheck: Callable[[], None] = go_on
    ) -> bytes:
        """Send; after a 429 that names a delay, wait and send again while the deadline allows it."""
        await self._pace.keep()
        limit_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        deadline_s = asyncio.get_running_loop().time() + limit_s
        return await self._within(limit_s, request, self._obey(request, deadline_s, recheck))

    async def _obey(self, request: HttpRequest, deadline_s: float, recheck: Callable[[], None]) -> bytes:
        clock = asyncio.get_running_loop().time
        while True:
            try:
                return await self._transport.send(request, recheck)
            except TooManyRequestsError as error:
                if error.retry_after_s is None or clock() + error.retry_after_s >= deadline_s:
                    raise
                await self._sleep(max(error.retry_after_s, _RETRY_FLOOR_S))

    async def _within(self, limit_s: float, request: HttpRequest, answer: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError as error:
            told = f"no answer from {self._transport.server} within {limit_s:g} s"
            raise UnreachableError(request.verb, request.target, told) from error


def _make_pool() -> HttpConnections:
    from gpuloom.kube.pooled import PooledConnections  # noqa: PLC0415 - commands that people wait for do without

    return PooledConnections()


def _collection_request(
    verb: str, resource: Resource[Any], selection: ListOptions, query: Mapping[str, str]
) -> HttpRequest:
    namespace = selection.namespace
    return HttpRequest(verb, resource.describe(namespace=namespace), "GET", resource.path(namespace=namespace), query)


def _decode(resource: Resource[T], body: bytes, request: HttpRequest) -> T:
    try:
        return resource.keep(decode(body, resource.type))
    except BAD_JSON as error:
        raise UnreadableError(request.verb, request.target, 0, f"the answer cannot be read: {error}") from error
