"""When a certificate is made, renewed, served and forgotten: each step from the certificates before it (binding 6)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.scheduler.certificates.lifecycle import LIFETIME, RENEWAL, CertificateSet, plan
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.serving.presented import Pair

START = datetime(2026, 1, 1, tzinfo=UTC)
DUE = START + LIFETIME - RENEWAL + timedelta(minutes=1)
HOSTS = ("gpuloom.kube-system.svc", "10.0.0.7")


def first() -> CertificateSet:
    return plan(CertificateSet(), HOSTS, START, published=False)


def renewed() -> CertificateSet:
    return plan(first(), HOSTS, DUE, published=True)


def names_of(pair: Pair | None) -> set[str]:
    assert pair is not None
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_the_first_certificate_is_served_at_once() -> None:
    certificates = first()
    assert (names_of(certificates.served), certificates.next, len(certificates.authorities)) == (set(HOSTS), None, 1)


def test_an_authority_issues_one_certificate_and_its_key_is_kept_nowhere() -> None:
    assert b"PRIVATE" not in first().bundle


def test_a_good_certificate_stays() -> None:
    certificates = first()
    assert plan(certificates, HOSTS, DUE - timedelta(minutes=2), published=True) == certificates


def test_a_certificate_is_renewed_in_time_and_the_old_one_still_served() -> None:
    certificates = renewed()
    assert certificates.served is not None
    assert certificates.next is not None
    assert certificates.served != certificates.next
    assert len(certificates.authorities) == 2


def test_the_new_certificate_is_not_served_before_its_authority_is_published() -> None:
    certificates = renewed()
    assert plan(certificates, HOSTS, DUE, published=False) == certificates


def test_the_new_certificate_is_served_when_its_authority_is_published() -> None:
    certificates = renewed()
    assert plan(certificates, HOSTS, DUE, published=True) == CertificateSet(
        certificates.next, None, certificates.authorities
    )


def test_the_old_authority_is_trusted_until_it_has_expired() -> None:
    certificates = plan(renewed(), HOSTS, DUE, published=True)
    before = plan(certificates, HOSTS, START + LIFETIME - timedelta(minutes=1), published=True)
    after = plan(certificates, HOSTS, START + LIFETIME + timedelta(minutes=1), published=True)
    assert (len(before.authorities), after.authorities) == (2, certificates.authorities[1:])


def test_an_expired_certificate_is_replaced_without_waiting() -> None:
    certificates = plan(first(), HOSTS, START + LIFETIME + timedelta(days=1), published=False)
    assert (certificates.next, len(certificates.authorities)) == (None, 1)
    assert certificates.served != first().served


def test_an_expired_certificate_is_replaced_by_the_one_that_waits() -> None:
    certificates = renewed()
    later = plan(certificates, HOSTS, START + LIFETIME + timedelta(days=1), published=False)
    assert later == CertificateSet(certificates.next, None, certificates.authorities[1:])


OTHER = first()


@pytest.mark.parametrize(
    "broken",
    [
        lambda pair: Pair(pair.certificate, b"nonsense"),
        lambda pair: Pair(b"nonsense", pair.key),
        lambda pair: Pair(pair.certificate, OTHER.served.key if OTHER.served else b""),
        lambda _: OTHER.served,
    ],
    ids=["key", "certificate", "another's key", "another authority's"],
)
def test_a_broken_certificate_is_replaced_and_known_authorities_stay_trusted(broken: object) -> None:
    certificates = first()
    mended = plan(replace(certificates, served=broken(certificates.served)), HOSTS, START, published=False)  # type: ignore[operator]
    assert mended.authorities[:1] == certificates.authorities
    assert len(mended.authorities) == 2


def test_a_broken_certificate_that_waits_is_dropped() -> None:
    certificates = first()
    assert plan(replace(certificates, next=Pair(b"x", b"y")), HOSTS, START, published=False) == certificates


def test_authorities_that_cannot_be_read_are_dropped() -> None:
    certificates = first()
    assert (
        plan(replace(certificates, authorities=(b"x", *certificates.authorities)), HOSTS, START, published=True)
        == certificates
    )


def test_another_host_is_added_and_the_old_ones_kept_for_replicas_that_want_them() -> None:
    certificates = plan(first(), ["new.svc"], START, published=False)
    assert names_of(certificates.next) == {*HOSTS, "new.svc"}


def test_a_certificate_that_names_no_host_is_renewed() -> None:
    authority = CertificateAuthority.create(now=START, lifetime=LIFETIME)
    nameless = Pair(authority.pem, authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates = plan(CertificateSet(nameless, None, (authority.pem,)), HOSTS, START, published=False)
    assert names_of(certificates.next) == set(HOSTS)


def test_a_host_that_is_no_longer_wanted_changes_nothing() -> None:
    certificates = first()
    assert plan(certificates, HOSTS[:1], START, published=True) == certificates


def test_keys_show_in_no_text() -> None:
    assert "PRIVATE" not in repr(first())


def hosts_of(flag: str) -> frozenset[str]:
    """The hosts of ``--tls-hosts``."""
    return SchedulerSettings(tls_self_manage="kube-system/gpuloom-tls", tls_hosts=flag).tls_host_names


SPELLINGS = {
    "2001:DB8::1": "2001:db8::1",
    "2001:0db8:0:0::1": "2001:db8::1",
    "[fd00::1]": "fd00::1",
    "10.0.0.7": "10.0.0.7",
    "Gpuloom.Kube-System.SVC": "gpuloom.kube-system.svc",
    "gpuloom.example.com.": "gpuloom.example.com",
    "*.example.com": "*.example.com",
}


@pytest.mark.parametrize("flag", SPELLINGS)
def test_a_host_is_in_the_certificate_however_it_is_spelled(flag: str) -> None:
    assert names_of(plan(CertificateSet(), hosts_of(flag), START, published=False).served) == {SPELLINGS[flag]}


@pytest.mark.parametrize("flag", SPELLINGS)
def test_a_certificate_is_not_renewed_for_another_spelling_of_its_host(flag: str) -> None:
    certificates = plan(CertificateSet(), hosts_of(flag), START, published=False)
    assert plan(certificates, hosts_of(flag), START, published=True) == certificates


NO_HOSTS = ("gpulööm.example.com", "fe80::1%eth0", "https://example.com", "example.com:443", "a b", "a..b", "[a.b]")


@pytest.mark.parametrize("host", [*NO_HOSTS, "a" * 64, ".".join(["a" * 60] * 5)])
def test_a_host_that_no_certificate_can_name_is_refused(host: str) -> None:
    with pytest.raises(SettingsError) as refused:
        hosts_of(f"gpuloom.svc,{host}")
    assert "--tls-hosts" in str(refused.value)
    assert host in str(refused.value)
