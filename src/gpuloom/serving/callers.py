"""Who calls, by certificate: authorities in a file, read again when it changes, and the accepted names."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from aiohttp import web

from gpuloom.serving.connections import Connections, Handler
from gpuloom.serving.presented import CertificateError, Presented

PERIOD_S = 10.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Callers:
    """Admits callers with a certificate of the authorities in a file; ``refused`` counts the others.

    ``names`` are the accepted common names, empty for all.
    """

    file: Path
    names: Collection[str]
    presented: Presented
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    refused: int = 0
    _read_last: bytes = field(default=b"", repr=False)

    def open(self) -> ssl.SSLContext:
        """Read the file and return the context for the listener.

        Raises CertificateError.
        """
        self._read_last = self._read()
        return self.presented.recognize(self._read_last)

    async def run(self) -> None:
        """Look for changes until cancelled; report authorities that cannot be used, and keep the old ones."""
        complaint = ""
        while True:
            await self.sleep(PERIOD_S)
            try:
                found = self._read()
                if found != self._read_last:
                    self.presented.recognize(found)
                    self._read_last = found
                complaint = ""
            except CertificateError as error:
                if str(error) != complaint:
                    _log.error("new authorities of callers not used, the old ones stay", cause=str(error))
                complaint = str(error)

    def guard(self, handler: Handler) -> Handler:
        """Answer only known callers, before anything else of a request is read."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if self._is_known(request):
                return await handler(request)
            self.refused += 1
            raise web.HTTPForbidden(text="this is answered only to callers with a certificate of --webhook-client-ca")

        return handle

    def _is_known(self, request: web.Request) -> bool:
        connection = request.get_extra_info("ssl_object")
        # A resumed session shows a certificate that earlier authorities have signed.
        if connection is None or connection.session_reused:
            return False
        certificate = request.get_extra_info("peercert") or {}
        subject = {key: value for parts in certificate.get("subject", ()) for key, value in parts}
        return bool(certificate) and (not self.names or subject.get("commonName") in self.names)

    def _read(self) -> bytes:
        try:
            text = self.file.read_bytes()
        except OSError as error:
            raise CertificateError(f"cannot read --webhook-client-ca {self.file}: {error.strerror}") from error
        if not text.strip():
            raise CertificateError(f"--webhook-client-ca {self.file} is empty: give the authorities of callers")
        return text


@dataclass(slots=True)
class OpenListeners:
    """The listeners of a process by name, and who may call the webhook: what metrics report about them."""

    connections: dict[str, Connections] = field(default_factory=dict)
    callers: Callers | None = None
