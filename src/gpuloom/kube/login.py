"""What one request to an API server presents, made from a server's TLS settings and a source of proofs.

It does not know where logins are stored; :mod:`gpuloom.kube.credentials` and its neighbours do.
"""

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from gpuloom.kube.errors import CredentialsError
from gpuloom.kube.tls import TlsSettings, ssl_context
from gpuloom.kube.tokens import FixedProof, Proof, ProofSource, trim

_NO_HOST = frozenset(' \\<>"^`{|}')
"""Characters that no host's name has."""


@dataclass(frozen=True, slots=True)
class Login:
    """One way into one API server: its URL, how to recognise it, how to prove who we are."""

    server: str
    tls: TlsSettings
    source: ProofSource
    namespace: str = "default"

    def __post_init__(self) -> None:
        try:
            read_server(self.server)
        except ValueError as error:
            raise CredentialsError(f"the server {error}") from None

    @property
    def keeps_secrets(self) -> bool:
        """Whether proofs may be sent there: over plain HTTP only on this machine, since others could read them."""
        scheme, host = read_server(self.server)
        return scheme == "https" or is_loopback(host)


def read_server(url: str) -> tuple[str, str]:
    """Return scheme and host of a server's URL.

    Raises ValueError that says what the URL is not.
    """
    try:
        read = urlsplit(url)
        host = read.hostname if read.port != 0 else None
        (host or "").encode("idna")  # as whoever looks the name up does
    except ValueError:
        host = None
    is_sound = host and url.isprintable() and read.path.isascii() and set(host).isdisjoint(_NO_HOST)
    if not host or not is_sound or read.scheme not in {"http", "https"}:
        raise ValueError(f"{url!r} is no http or https URL: correct it")
    if read.query or read.fragment:
        raise ValueError(f"{url!r} is more than an address: leave out what begins with ? or #")
    return read.scheme, host


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address or the name ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class Access:
    """What to present with one request; ``ssl_context`` is ``None`` for plain HTTP."""

    proof: Proof
    headers: Mapping[str, str]
    ssl_context: ssl.SSLContext | None
    server_name: str | None


class Credentials:
    """Lasting access to one API server: ``load`` is called again when the server refuses the login."""

    def __init__(self, load: Callable[[], Login]) -> None:
        self._load = load
        self._login = load()
        self._access: Access | None = None

    @classmethod
    def for_token(cls, server: str, token: str, *, ca_pem: bytes = b"", server_name: str = "") -> "Credentials":
        """Credentials with a fixed bearer token; ``ca_pem`` empty means the system's authorities (or plain HTTP).

        ``server_name`` replaces the URL's host in the check of the certificate.
        """
        tls = TlsSettings(ca=ca_pem or None, server_name=server_name)
        login = Login(server, tls, FixedProof(Proof(token=token)))
        return cls(lambda: login)

    @property
    def server(self) -> str:
        """URL of the API server without a slash at the end."""
        return self._login.server.rstrip("/")

    @property
    def namespace(self) -> str:
        """The namespace that applies where none is named."""
        return self._login.namespace

    async def access(self) -> Access:
        """Return what to present now; raises :class:`CredentialsError`. Keeps the TLS context while nothing changes."""
        login = self._login
        proof = trim(await login.source.proof()) if login.keeps_secrets else Proof()
        if self._access is None or self._access.proof != proof:
            self._access = self._present(login, proof)
        return self._access

    def renew(self, refused: Access) -> None:
        """Load everything again because the server refused ``refused``, unless somebody has done so meanwhile.

        When that fails, raises :class:`CredentialsError` and keeps the old login.
        """
        if self._access is refused:
            self._login = self._load()
            self._access = None

    def _present(self, login: Login, proof: Proof) -> Access:
        headers = {"Authorization": f"Bearer {proof.token}"} if proof.token else {}
        if read_server(login.server)[0] == "http":
            return Access(proof, headers, None, None)
        tls = login.tls
        if proof.certificate:
            tls = replace(tls, certificate=proof.certificate, key=proof.key)
        previous = self._access
        same_tls = previous is not None and (previous.proof.certificate, previous.proof.key) == (
            proof.certificate,
            proof.key,
        )
        context = previous.ssl_context if previous is not None and same_tls else ssl_context(tls)
        return Access(proof, headers, context, tls.server_name or None)
