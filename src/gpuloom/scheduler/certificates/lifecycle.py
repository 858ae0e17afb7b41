"""When a certificate is made, renewed, served and forgotten (binding 6). Pure but for the keys that it draws.

Every renewal has its own authority, whose key is thrown away at once, so that nobody can steal it. The order is: both
authorities are published, then the new certificate is served, and the old authority stays published until it expires.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.serving.presented import Pair

LIFETIME = timedelta(days=90)
RENEWAL = timedelta(days=30)
"""A certificate with less than this left is renewed."""


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """All that replicas share.

    served       what listeners present, None before the first
    next         what they will present once its authority is published, None without one
    authorities  certificates (PEM) that callers are to trust, the oldest first
    """

    served: Pair | None = None
    next: Pair | None = None
    authorities: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """The authorities as one text."""
        return b"".join(self.authorities)


def plan(certificates: CertificateSet, hosts: Iterable[str], now: datetime, *, published: bool) -> CertificateSet:
    """Say what the set should be now, the same when there is nothing to do.

    ``published`` tells that callers have been told of all its authorities.
    """
    wanted = frozenset(hosts)
    trusted = tuple(pem for pem in certificates.authorities if _is_alive(pem, now))
    certificates = replace(certificates, authorities=trusted)
    has_next = certificates.next is not None and _is_usable(certificates.next, trusted, now)
    if certificates.served is None or not _is_usable(certificates.served, trusted, now):
        # Nobody can be served now, so there is nothing to wait for.
        return _promote(certificates) if has_next else _begin(certificates, wanted, now)
    if has_next:
        return _promote(certificates) if published else certificates
    if _is_due(certificates.served, now) or not wanted <= _hosts(certificates.served):
        # Replicas of two versions may want different names: each keeps what the other has.
        return _renew(certificates, wanted | _hosts(certificates.served), now)
    return replace(certificates, next=None)


def _begin(certificates: CertificateSet, hosts: frozenset[str], now: datetime) -> CertificateSet:
    pair, authority = _issue(hosts, now)
    return CertificateSet(pair, None, (*certificates.authorities, authority))


def _renew(certificates: CertificateSet, hosts: frozenset[str], now: datetime) -> CertificateSet:
    pair, authority = _issue(hosts, now)
    return CertificateSet(certificates.served, pair, (*certificates.authorities, authority))


def _promote(certificates: CertificateSet) -> CertificateSet:
    return replace(certificates, served=certificates.next, next=None)


def _issue(hosts: frozenset[str], now: datetime) -> tuple[Pair, bytes]:
    authority = CertificateAuthority.create(f"gpuloom {now:%Y-%m-%d %H:%M}", now=now, lifetime=LIFETIME)
    return Pair(*authority.issue(sorted(hosts))), authority.pem


def _is_alive(pem: bytes, now: datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc > now
    except ValueError:
        return False


def _is_usable(pair: Pair, authorities: Iterable[bytes], now: datetime) -> bool:
    """Whether the pair belongs together, is valid now, and one of the authorities has issued it."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = load_pem_private_key(pair.key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    if certificate.not_valid_after_utc <= now or key.public_key() != certificate.public_key():
        return False
    return any(_has_issued(pem, certificate) for pem in authorities)


def _has_issued(authority: bytes, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_due(pair: Pair, now: datetime) -> bool:
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc - now < RENEWAL


def _hosts(pair: Pair) -> frozenset[str]:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset((*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses)))
