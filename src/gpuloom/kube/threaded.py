"""Connections of a short command: Python's own HTTP client in threads, since loading aiohttp takes longer than asking.

A thread that nobody waits for any more ends with its connection, and none keeps the process from ending.
"""

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from gpuloom.kube.connections import Outgoing, Reply

_T = TypeVar("_T")
_READ_BYTES = 2**18


class _Connection(http.client.HTTPConnection):
    """A connection to the host and in the way that a request names."""

    def __init__(self, request: Outgoing) -> None:
        url = urlsplit(request.url)
        self.default_port = http.client.HTTPS_PORT if request.ssl_context else http.client.HTTP_PORT
        super().__init__(url.hostname or "", url.port or self.default_port, timeout=request.silence_s)
        self._ssl_context = request.ssl_context
        self._server_name = request.server_name or self.host

    def connect(self) -> None:
        """Connect; over TLS, check who is there."""
        super().connect()
        if self._ssl_context is not None:
            self.sock = self._ssl_context.wrap_socket(self.sock, server_hostname=self._server_name)

    def send_request(self, request: Outgoing) -> http.client.HTTPResponse:
        """Send and wait for the head of the reply."""
        url = urlsplit(request.url)
        target = f"{url.path}?{url.query}" if url.query else url.path
        self.request(request.method, target, request.body, {**request.headers, "Connection": "close"})
        return self.getresponse()

    def cut(self) -> None:
        """End it at once, whoever reads from it or writes to it."""
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class _Content:
    response: http.client.HTTPResponse

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Give what arrives, as it arrives."""
        # read1 takes an early end for the end, so what the head announces is counted.
        missing = self.response.length
        while missing != 0:
            chunk = await _run_in_thread(lambda: self.response.read1(_READ_BYTES))
            if not chunk:
                break
            missing = None if missing is None else missing - len(chunk)
            yield chunk
        if missing:
            raise ConnectionError(f"the answer ended {missing} bytes early")


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    content: _Content


class ThreadedConnections:
    """See :class:`~gpuloom.kube.connections.HttpConnections`. Each request has a connection of its own."""

    async def open(self) -> None:
        """Do nothing: connections are made by the requests."""

    async def close(self) -> None:
        """Do nothing: connections end with their requests."""

    @asynccontextmanager
    async def exchange(self, request: Outgoing) -> AsyncIterator[Reply]:
        """Send and give the reply."""
        connection = _Connection(request)
        try:
            response = await _run_in_thread(lambda: connection.send_request(request))
            try:
                yield _Reply(response.status, response.headers, _Content(response))  # type: ignore[arg-type]
            finally:
                response.close()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            connection.cut()
            connection.close()


async def _run_in_thread(work: Callable[[], _T]) -> _T:
    """Return what a function returns in a thread; when the wait is cancelled, the thread is left to itself."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_T] = loop.create_future()

    def settle(action: Callable[[Any], None], outcome: Any) -> None:
        if not ended.done():
            action(outcome)

    def run() -> None:
        try:
            told: tuple[Callable[[Any], None], Any] = ended.set_result, work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            told = ended.set_exception, error
        # The loop may have ended since.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=run, name="gpuloom-request", daemon=True).start()
    return await ended
