"""What listeners present: a certificate and its key, replaced in one step while connections come and go."""

import ssl
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cryptography import x509

from gpuloom.kube.tls import load_pair


class CertificateError(Exception):
    """Certificate and key cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (PEM, with its chain) and its key, which is left out of the text form."""

    certificate: bytes
    key: bytes = field(repr=False)


class Presented:
    """Presents the pair that was set last. ``context`` is for listeners and stays the same."""

    def __init__(self, pair: Pair, source: str) -> None:
        """Begin with a pair; ``source`` says in messages where it comes from.

        Raises CertificateError.
        """
        self.pair = pair
        self._source = source
        self._callers = b""
        self._asking: ssl.SSLContext | None = None
        self._current = self.context = _load(pair, source, b"")
        # Called on every handshake, with or without a server name: the only way to change the pair in one step.
        self.context.sni_callback = self._present

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return x509.load_pem_x509_certificate(self.pair.certificate).not_valid_after_utc

    def use(self, pair: Pair, source: str) -> None:
        """Present this pair from now on.

        Raises CertificateError; then the old one stays.
        """
        self._current = _load(pair, source, self._callers)
        self.pair, self._source = pair, source

    def recognize(self, callers: bytes) -> ssl.SSLContext:
        """Return a context for listeners that ask callers for a certificate, without requiring one.

        ``callers`` are the authorities (PEM) of these certificates; a later call replaces them for that context too.
        Raises CertificateError.
        """
        self._current = _load(self.pair, self._source, callers)
        self._callers = callers
        if self._asking is None:
            # The context with which a handshake begins decides whether callers are asked, the one with which it goes on
            # decides whom to trust.
            self._asking = _load(self.pair, self._source, callers)
            self._asking.sni_callback = self._present
        return self._asking

    def _present(self, connection: Any, _server_name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def _load(pair: Pair, source: str, callers: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if callers:
            context.load_verify_locations(cadata=callers.decode())
            # This asks nobody in a context with which a handshake goes on; without it the certificate is not reported.
            context.verify_mode = ssl.CERT_OPTIONAL
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"cannot use the authorities of callers: {error}") from error
    try:
        load_pair(context, pair.certificate, pair.key)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"cannot use {source}: {error}") from error
    return context
