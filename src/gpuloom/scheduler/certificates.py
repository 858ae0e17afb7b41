"""The server's certificate, loaded again when its files change.

A new pair becomes a context of its own first. Only a good one is used, for connections that begin from then on; a bad
one is reported and the old one stays.
"""

import ssl
from pathlib import Path
from typing import Any

import structlog

from gpuloom.scheduler.clocks import Clocks

PERIOD_S = 10.0

_log = structlog.get_logger(__name__)


class CertificateError(Exception):
    """Certificate and key cannot be used; the message names both files."""


class Certificates:
    """A certificate and its key as files. ``context`` is for listeners and always presents the pair loaded last."""

    def __init__(self, cert_file: str, key_file: str) -> None:
        """Load the pair.

        Raises CertificateError.
        """
        self._files = (Path(cert_file), Path(key_file))
        self._complaint = ""
        self._content = self._read()
        self._current = self.context = self._load()
        # Called on every handshake, with or without a server name: the only way to change the pair in one step.
        self.context.sni_callback = self._present

    async def run(self, clocks: Clocks) -> None:
        """Look for changes until cancelled."""
        while True:
            await clocks.sleep(PERIOD_S)
            self.refresh()

    def refresh(self) -> None:
        """Look for a change of the files' content once."""
        try:
            content = self._read()
            if content == self._content:
                return
            self._content = content
            self._current = self._load()
        except CertificateError as error:
            if str(error) != self._complaint:
                _log.error("new certificate not used, the old one stays", cause=str(error))
            self._complaint = str(error)
        else:
            self._complaint = ""
            _log.info("new certificate in use", file=str(self._files[0]))

    def _present(self, connection: Any, _server_name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _read(self) -> tuple[bytes, bytes]:
        certificate, key = self._files
        try:
            return certificate.read_bytes(), key.read_bytes()
        except OSError as error:
            raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"cannot use certificate {certificate} with key {key}: {error}") from error
        return context
