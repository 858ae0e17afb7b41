"""One HTTP request to an API server: credentials, TLS, errors with names. It retries only after a refused login.

Verbs, deadlines and retries are in :mod:`gpuloom.kube.client`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from yarl import URL

from gpuloom import __version__
from gpuloom.kube.credentials import Access, Credentials, CredentialsError
from gpuloom.kube.errors import ApiError, UnauthorizedError, UnreachableError, error_of_reply

_BODY_LIMIT_BYTES = 512 * 2**20
_ERROR_BODY_LIMIT_BYTES = 2**20
_READ_BUFFER_BYTES = 2**21
"""How many bytes of an answer may wait to be read, so that a page of a list arrives without pauses."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send; ``verb`` and ``target`` are for messages."""

    verb: str
    target: str
    method: str
    path: str
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """A pool of connections to one API server; an async context manager."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressing costs the API server more than the bytes cost the cluster's network.
            headers={
                "User-Agent": f"gpuloom/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            read_bufsize=_READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def token(self) -> str:
        """Return the bearer token of the credentials, empty when they have none; raises :class:`CredentialsError`."""
        return (await self._credentials.access()).proof.token

    async def send(self, request: HttpRequest) -> bytes:
        """Send and read the whole reply; raises :class:`ApiError`."""
        async with self.open(request) as reply:
            return await _read_body(reply, request, _BODY_LIMIT_BYTES)

    @asynccontextmanager
    async def open(
        self, request: HttpRequest, *, silence_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send and give the successful reply with its body unread; errors in reading it become :class:`ApiError` too.

        ``silence_s`` bounds the time to connect and the time between two reads.
        """
        try:
            reply = await self._open_believed(request, silence_s)
            try:
                yield reply
            finally:
                # Keeps the connection if the body was read to its end, closes it otherwise.
                reply.release()
        except aiohttp.SocketTimeoutError as error:
            raise UnreachableError(request.verb, request.target, f"nothing received for {silence_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(request.verb, request.target, f"no answer from {self._describe(error)}") from error

    async def _open_believed(self, request: HttpRequest, silence_s: float | None) -> aiohttp.ClientResponse:
        access = await self._access(request)
        reply = await self._attempt(request, access, silence_s)
        if reply.status == 401:
            refusal = await _read_error(reply, request)
            self._renew(access, refusal)
            access = await self._access(request)
            reply = await self._attempt(request, access, silence_s)
        if reply.status >= 300:
            raise await _read_error(reply, request)
        return reply

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

    async def _attempt(self, request: HttpRequest, access: Access, silence_s: float | None) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as an async context manager")
        return await self._session.request(
            request.method,
            URL(self._credentials.server + request.path, encoded=True).with_query(request.query),
            data=request.body,
            headers={
                **request.headers,
                **access.headers,
                **({"Content-Type": request.content_type} if request.body is not None else {}),
            },
            ssl=access.ssl_context or True,
            server_hostname=access.server_name,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=silence_s, sock_read=silence_s),
            allow_redirects=False,
        )

    def _describe(self, error: Exception) -> str:
        return f"{self._credentials.server}: {' '.join(str(error).split()) or type(error).__name__}"


async def _read_error(reply: aiohttp.ClientResponse, request: HttpRequest) -> ApiError:
    async with reply:
        body = await _read_body(reply, request, _ERROR_BODY_LIMIT_BYTES)
    return error_of_reply(request.verb, request.target, reply.status, body, reply.headers.get("Retry-After"))


async def _read_body(reply: aiohttp.ClientResponse, request: HttpRequest, limit_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in reply.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            raise UnreachableError(request.verb, request.target, f"the answer is larger than {limit_bytes} bytes")
    return b"".join(chunks)
