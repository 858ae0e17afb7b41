"""One HTTP request to an API server: credentials, TLS, errors with names. It retries only after a refused login.

Verbs, deadlines and retries are in :mod:`gpuloom.kube.client`.
"""

import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, urlencode

from gpuloom import __version__
from gpuloom.kube.connections import HttpConnections, Outgoing, Reply
from gpuloom.kube.credentials import Access, Credentials, CredentialsError
from gpuloom.kube.errors import (
    ApiError,
    TooLongError,
    UnauthorizedError,
    UnreachableError,
    UntrustedError,
    error_of_reply,
)

BODY_LIMIT_BYTES = 512 * 2**20
_ERROR_BODY_LIMIT_BYTES = 2**20
_HEADERS = {
    "User-Agent": f"gpuloom/{__version__}",
    "Accept": "application/json",
    # Compressing costs the API server more than the bytes cost the cluster's network.
    "Accept-Encoding": "identity",
}


def go_on() -> None:
    """Accept everything."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send; ``verb`` and ``target`` are for messages. A longer answer than ``most_bytes`` is none."""

    verb: str
    target: str
    method: str
    path: str
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int = BODY_LIMIT_BYTES


class Transport:
    """The way to one API server; an async context manager."""

    def __init__(self, credentials: Credentials, connections: HttpConnections) -> None:
        self._credentials = credentials
        self._connections = connections

    async def __aenter__(self) -> Self:
        await self._connections.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.close()

    async def token(self) -> str:
        """Return the bearer token of the credentials, empty when they have none; raises :class:`CredentialsError`."""
        return (await self._credentials.access()).proof.token

    @property
    def server(self) -> str:
        """The URL of whoever is asked."""
        return self._credentials.server

    async def send(self, request: HttpRequest, recheck: Callable[[], None] = go_on) -> bytes:
        """Send and read the whole reply; raises :class:`ApiError`, and what ``recheck`` raises right before sending."""
        async with self.open(request, recheck=recheck) as reply:
            return await _read_body(reply, request, request.most_bytes)

    @asynccontextmanager
    async def open(
        self, request: HttpRequest, *, silence_s: float | None = None, recheck: Callable[[], None] = go_on
    ) -> AsyncIterator[Reply]:
        """Send and give the successful reply with its body unread; errors in reading it become :class:`ApiError` too.

        ``silence_s`` bounds the time to connect and the time between two reads.
        """
        try:
            access = await self._access(request)
            recheck()
            async with self._exchange(request, access, silence_s) as reply:
                if reply.status != 401:
                    yield await _check(reply, request)
                    return
                refusal = await _read_error(reply, request)
            self._renew(access, refusal)
            access = await self._access(request)
            recheck()
            async with self._exchange(request, access, silence_s) as reply:
                yield await _check(reply, request)
        except ssl.SSLCertVerificationError as error:
            # The authority may have been replaced; nothing was sent, and the next request believes what is there now.
            with suppress(CredentialsError):
                self._credentials.renew(access)
            raise UntrustedError(request.verb, request.target, self._tell(error)) from error
        except OSError as error:
            if silence_s is not None and isinstance(error, TimeoutError):
                raise UnreachableError(request.verb, request.target, f"nothing received for {silence_s:g} s") from error
            raise UnreachableError(request.verb, request.target, self._tell(error)) from error

    async def _access(self, request: HttpRequest) -> Access:
        try:
            return await self._credentials.access()
        except CredentialsError as error:
            raise UnauthorizedError(request.verb, request.target, 0, str(error)) from error

    def _renew(self, access: Access, refusal: ApiError) -> None:
        try:
            self._credentials.renew(access)
        except CredentialsError as error:
            message = f"{refusal.message}; {error}"
            raise UnauthorizedError(refusal.verb, refusal.object, refusal.status, message) from error

    def _exchange(
        self, request: HttpRequest, access: Access, silence_s: float | None
    ) -> AbstractAsyncContextManager[Reply]:
        type_ = {"Content-Type": request.content_type} if request.body is not None else {}
        return self._connections.exchange(
            Outgoing(
                request.method,
                _write_url(self._credentials.server + request.path, request.query),
                {**_HEADERS, **request.headers, **access.headers, **type_},
                request.body,
                access.ssl_context,
                access.server_name,
                silence_s,
            )
        )

    def _tell(self, error: OSError) -> str:
        return f"no answer from {self.server}: {_name_fault(error)}"


def _write_url(url: str, query: Mapping[str, str | Sequence[str]]) -> str:
    return f"{url}?{urlencode(query, doseq=True, quote_via=quote)}" if query else url


def _name_fault(error: OSError) -> str:
    """Say in few words what the system or the other side did; the same words whoever carried the request."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if error.errno is not None and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return " ".join((error.strerror or str(error)).split()) or type(error).__name__


async def _check(reply: Reply, request: HttpRequest) -> Reply:
    if reply.status >= 300:
        raise await _read_error(reply, request)
    return reply


async def _read_error(reply: Reply, request: HttpRequest) -> ApiError:
    body = await _read_body(reply, request, _ERROR_BODY_LIMIT_BYTES)
    return error_of_reply(request.verb, request.target, reply.status, body, reply.headers.get("Retry-After"))


async def _read_body(reply: Reply, request: HttpRequest, limit_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in reply.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            raise TooLongError(request.verb, request.target, f"the answer is larger than {limit_bytes} bytes")
    return b"".join(chunks)
