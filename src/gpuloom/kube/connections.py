"""What carries requests to a server, whoever does it: :mod:`gpuloom.kube.pooled` or :mod:`gpuloom.kube.threaded`.

Neither knows of logins, retries or deadlines; :mod:`gpuloom.kube.transport` and its client do.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent. ``url`` has its query; ``ssl_context`` is None for plain HTTP.

    ``server_name`` replaces the URL's host in the check of the certificate; ``silence_s`` bounds the time to connect
    and the time between two reads.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    ssl_context: ssl.SSLContext | None = None
    server_name: str | None = None
    silence_s: float | None = None


class Content(Protocol):
    """The body of a reply."""

    def iter_any(self) -> AsyncIterator[bytes]:
        """Give what arrives, as it arrives."""


class Reply(Protocol):
    """A reply whose body is still to be read."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in any case."""

    @property
    def content(self) -> Content:
        """The body."""


class HttpConnections(Protocol):
    """Connections to one server. Redirects are not followed, proxies of the environment not used, cookies not kept."""

    async def open(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """Close them all."""

    def exchange(self, request: Outgoing) -> AbstractAsyncContextManager[Reply]:
        """Send and give the reply.

        Raises OSError, also from the reading inside: TimeoutError after too long a silence, and
        ssl.SSLCertVerificationError, before anything is sent, where the server is not believed.
        """
