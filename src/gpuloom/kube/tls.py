"""TLS contexts from the certificates that credentials name.

OpenSSL reads keys only from files: from a file in memory, or, where there is none, from a private folder for that
moment.
"""

import os
import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpuloom.kube.errors import CredentialsError

Pem = bytes | Path
"""Certificates or a key: the PEM text itself, or the file that holds it."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to verify a server and, with ``certificate`` and ``key``, how to log in to it.

    Without ``ca`` the system's authorities count; ``server_name`` replaces the URL's host in the check.
    """

    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    insecure: bool = False
    server_name: str = ""


def ssl_context(settings: TlsSettings) -> ssl.SSLContext:
    """Build the context, reading files anew; raises :class:`CredentialsError` naming what cannot be used."""
    ca_text = None if settings.ca is None else read_pem(settings.ca, "certificate authority").decode(errors="replace")
    try:
        context = ssl.create_default_context(cadata=ca_text)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"{_source_of(settings.ca)} holds no usable certificate authority: {error}") from error
    # Since Python 3.13 the default is strict RFC 5280, which many clusters' own authorities do not meet.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate is not None and settings.key is not None:
        _present(context, settings.certificate, settings.key)
    elif settings.certificate is not None or settings.key is not None:
        raise CredentialsError("a client certificate needs its key and a key its certificate: give both or neither")
    return context


def read_pem(source: Pem, what: str) -> bytes:
    """Return the bytes of ``source``; raises :class:`CredentialsError` that calls it ``what``."""
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise CredentialsError(f"cannot read the {what} {source}: {error.strerror}; make it readable") from error


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make a context present a certificate; raises ssl.SSLError or ValueError when certificate and key do not fit."""
    with ExitStack() as stack:
        files = [_show(stack, text) for text in (certificate, key)]
        # An empty password instead of a prompt on the terminal for an encrypted key.
        context.load_cert_chain(files[0], files[1], password="")


def _show(stack: ExitStack, text: bytes) -> Path:
    """Return a path from which a text can be read until the stack closes."""
    if hasattr(os, "memfd_create"):
        file = stack.enter_context(os.fdopen(os.memfd_create("gpuloom"), "wb"))
        path = Path(f"/proc/self/fd/{file.fileno()}")
        file.write(text)
        file.flush()
        return path
    import tempfile  # noqa: PLC0415 - Linux does without it

    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuloom-")), "pem")
    path.touch(mode=0o600)
    path.write_bytes(text)
    return path


def _present(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    try:
        load_pair(context, read_pem(certificate, "client certificate"), read_pem(key, "client key"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"{_source_of(certificate)} and {_source_of(key)} are no usable client certificate and key: {error}"
        ) from error


def _source_of(source: Pem | None) -> str:
    return str(source) if isinstance(source, Path) else "the data in the kubeconfig"
