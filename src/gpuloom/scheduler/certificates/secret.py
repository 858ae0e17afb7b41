"""The set of certificates as a Secret that replicas share: the keys of ``kubernetes.io/tls`` and some more."""

import base64
import binascii
import re
from collections.abc import Mapping

from gpuloom.scheduler.certificates.lifecycle import CertificateSet
from gpuloom.serving.presented import Pair
from gpuloom.wire.objects import Secret

LABEL = "gpuloom.io/self-managed"
"""Marks the Secrets that may be written: no other is ever touched."""

_SERVED = ("tls.crt", "tls.key")
_NEXT = ("next.crt", "next.key")
_AUTHORITIES = "ca.crt"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


def is_foreign(secret: Secret) -> bool:
    """Whether a Secret holds something that is not ours."""
    return bool(secret.data) and LABEL not in secret.labels


def read_certificates(secret: Secret) -> CertificateSet:
    """Read a Secret; what cannot be read counts as absent, because it can be made anew."""
    data = secret.data or {}
    return CertificateSet(
        _read_pair(data, _SERVED), _read_pair(data, _NEXT), tuple(_PEM.findall(_read(data.get(_AUTHORITIES, ""))))
    )


def write_certificates(certificates: CertificateSet) -> dict[str, str | None]:
    """Write ``data`` of a Secret; None is a key that must vanish."""
    data: dict[str, str | None] = {_AUTHORITIES: base64.b64encode(certificates.bundle).decode()}
    for keys, pair in ((_SERVED, certificates.served), (_NEXT, certificates.next)):
        values = (pair.certificate, pair.key) if pair else (None, None)
        for key, value in zip(keys, values, strict=True):
            data[key] = None if value is None else base64.b64encode(value).decode()
    return data


def _read_pair(data: Mapping[str, str], keys: tuple[str, str]) -> Pair | None:
    certificate, key = (_read(data.get(name, "")) for name in keys)
    return Pair(certificate, key) if certificate and key else None


def _read(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
