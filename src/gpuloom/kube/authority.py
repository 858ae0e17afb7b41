"""A certificate authority in memory that issues server certificates. Nothing here writes a file."""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
CLOCK_SKEW = dt.timedelta(minutes=5)
_COMMON_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A self-signed authority that issues server certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(
        cls, common_name: str = "gpuloom local CA", *, now: dt.datetime | None = None, lifetime: dt.timedelta = LIFETIME
    ) -> Self:
        """Make an authority with its own key; ``now`` is the current time unless given."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        start = now or dt.datetime.now(dt.UTC)
        builder = _builder(name, name, key.public_key(), start - CLOCK_SKEW, start + lifetime)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(for_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        """The authority's certificate, for clients to trust."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, hosts: Iterable[str]) -> tuple[bytes, bytes]:
        """Make a server certificate for DNS names and IP addresses; return (certificate PEM, key PEM).

        It is valid as long as the authority.
        """
        names = list(hosts)
        key = ec.generate_private_key(ec.SECP256R1())
        own = self.certificate
        subject = _name(names[0][:_COMMON_NAME_CHARS])
        certificate = (
            _builder(subject, own.subject, key.public_key(), own.not_valid_before_utc, own.not_valid_after_utc)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(for_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate.public_bytes(serialization.Encoding.PEM), private


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, start: dt.datetime, end: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, for_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=for_authority,
        crl_sign=for_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
