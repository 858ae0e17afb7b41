"""What listeners present: a certificate and its key, changed in one step while connections come and go."""

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
    """A certificate (PEM, with its chain) and its key, which no text form shows."""

    certificate: bytes
    key: bytes = field(repr=False)


class Presented:
    """Shows the pair used last. ``context`` is for listeners and stays the same."""

    def __init__(self, pair: Pair, place: str) -> None:
        """Begin with a pair; ``place`` says in messages where it comes from.

        Raises CertificateError.
        """
        self.pair = pair
        self._place = place
        self._callers = b""
        self._asking: ssl.SSLContext | None = None
        self._current = self.context = _load(pair, place, b"")
        # Called on every handshake, with or without a server name: the only way to change the pair in one step.
        self.context.sni_callback = self._present

    @property
    def expires(self) -> datetime:
        """When the certificate ends to be valid."""
        return x509.load_pem_x509_certificate(self.pair.certificate).not_valid_after_utc

    def use(self, pair: Pair, place: str) -> None:
        """Show this pair from now on.

        Raises CertificateError, the old one stays then.
        """
        self._current = _load(pair, place, self._callers)
        self.pair, self._place = pair, place

    def recognize(self, callers: bytes) -> ssl.SSLContext:
        """Return a context for listeners that ask callers for a certificate, without insisting.

        ``callers`` are the authorities (PEM) that say whose it is; given anew, they count for that context too. Raises
        CertificateError.
        """
        self._current = _load(self.pair, self._place, callers)
        self._callers = callers
        if self._asking is None:
            # Whether callers are asked is decided by the context that a handshake begins with, whom to believe by that
            # which it goes on with.
            self._asking = _load(self.pair, self._place, callers)
            self._asking.sni_callback = self._present
        return self._asking

    def _present(self, connection: Any, _server_name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def _load(pair: Pair, place: str, callers: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if callers:
            context.load_verify_locations(cadata=callers.decode())
            # Of a context that a handshake goes on with this asks nobody; without it the certificate is not told.
            context.verify_mode = ssl.CERT_OPTIONAL
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"cannot use the authorities of callers: {error}") from error
    try:
        load_pair(context, pair.certificate, pair.key)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"cannot use {place}: {error}") from error
    return context
