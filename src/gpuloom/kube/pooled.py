"""Connections of long-running processes: aiohttp keeps as many as are wanted and reads large lists fastest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from gpuloom.kube.connections import Outgoing, Reply

_READ_BUFFER_BYTES = 2**21
"""How many bytes of an answer may wait to be read, so that a page of a list arrives without pauses."""


class PooledConnections:
    """See :class:`~gpuloom.kube.connections.HttpConnections`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the pool; connections follow with the first requests."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
        )

    async def close(self) -> None:
        """Close them all."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def exchange(self, request: Outgoing) -> AsyncIterator[Reply]:
        """Send and give the reply."""
        try:
            reply = await self._send(request)
            try:
                yield reply
            finally:
                # Keeps the connection if the body was read to its end, closes it otherwise.
                reply.release()
        except aiohttp.ClientConnectorCertificateError as error:
            raise error.certificate_error from error
        except aiohttp.ClientConnectorError as error:
            raise error.os_error from error
        except aiohttp.ClientError as error:
            if isinstance(error, OSError):
                raise
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def _send(self, request: Outgoing) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as an async context manager")
        silence_s = request.silence_s
        return await self._session.request(
            request.method,
            URL(request.url, encoded=True),
            data=request.body,
            headers=request.headers,
            ssl=request.ssl_context or True,
            server_hostname=request.server_name,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=silence_s, sock_read=silence_s),
            allow_redirects=False,
        )
