"""Listeners: the extender's own port, certificates that change, slow clients (binding 6, scheduler 0.2)."""

import asyncio
import dataclasses
import ssl
from pathlib import Path

import pytest
import structlog.testing
from local.scheduler.clock import DEADLINE_S
from local.scheduler.site import DEFAULTS, Site

from gpuloom.local.apiserver import CertificateAuthority
from gpuloom.scheduler import CannotServeError, SchedulerProcess, SchedulerSettings


def write_pair(directory: Path, authority: CertificateAuthority) -> SchedulerSettings:
    certificate, key = authority.issue(["127.0.0.1"])
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(key)
    return dataclasses.replace(DEFAULTS, cert_file=str(directory / "tls.crt"), key_file=str(directory / "tls.key"))


def write_key(settings: SchedulerSettings, key: bytes) -> None:
    Path(settings.key_file).write_bytes(key)


def remove_key(settings: SchedulerSettings) -> None:
    Path(settings.key_file).unlink()


async def get_status(site: Site, url: str, authority: CertificateAuthority | None = None) -> int:
    trust = ssl.create_default_context(cadata=authority.pem.decode()) if authority else True
    async with site.session.get(f"{url}/healthz", ssl=trust, headers={"Connection": "close"}) as reply:
        return reply.status


async def post_status(site: Site, url: str) -> int:
    async with site.session.post(url, data=b"{}") as reply:
        return reply.status


async def is_trusted(site: Site, authority: CertificateAuthority) -> bool:
    try:
        return await get_status(site, site.process.url, authority) == 200
    except OSError:
        return False


async def test_with_a_port_of_its_own_the_extender_answers_only_there(empty: Site) -> None:
    """binding 6 extender verbs."""
    process = await empty.start(dataclasses.replace(DEFAULTS, extender_bind="127.0.0.1:0"))
    for verb in ("filter", "bind"):
        assert await post_status(empty, f"{process.urls.main}/{verb}") == 404
        assert await post_status(empty, f"{process.urls.extender}/{verb}") == 200
    assert await post_status(empty, f"{process.urls.main}/webhook") == 200
    assert await post_status(empty, f"{process.urls.extender}/webhook") == 404


async def test_the_extenders_port_is_plain_on_loopback_beside_https(empty: Site, tmp_path: Path) -> None:
    settings = write_pair(tmp_path, CertificateAuthority.create())
    process = await empty.start(dataclasses.replace(settings, extender_bind="127.0.0.1:0"))
    assert (process.urls.main[:8], process.urls.extender[:7]) == ("https://", "http://")


async def test_the_extender_is_never_plain_where_others_can_reach_it(empty: Site) -> None:
    """binding 6 extender verbs."""
    settings = dataclasses.replace(DEFAULTS, extender_bind="0.0.0.0:0")
    with pytest.raises(CannotServeError, match="can be reached from outside"):
        await SchedulerProcess(settings, empty.client).__aenter__()


async def test_one_of_certificate_and_key_is_not_enough(empty: Site) -> None:
    with pytest.raises(CannotServeError, match="both or neither"):
        await SchedulerProcess(dataclasses.replace(DEFAULTS, cert_file="x"), empty.client).__aenter__()


async def test_a_certificate_that_cannot_be_used_is_one_clear_error(empty: Site, tmp_path: Path) -> None:
    settings = write_pair(tmp_path, CertificateAuthority.create())
    write_key(settings, b"nonsense")
    with pytest.raises(CannotServeError, match="cannot use certificate"):
        await SchedulerProcess(settings, empty.client).__aenter__()


async def test_a_missing_certificate_is_one_clear_error(empty: Site, tmp_path: Path) -> None:
    settings = dataclasses.replace(DEFAULTS, cert_file=str(tmp_path / "no"), key_file=str(tmp_path / "no"))
    with pytest.raises(CannotServeError, match="cannot read"):
        await SchedulerProcess(settings, empty.client).__aenter__()


async def test_a_new_certificate_is_used_without_a_restart(empty: Site, tmp_path: Path) -> None:
    old, new = CertificateAuthority.create("old"), CertificateAuthority.create("new")
    await empty.start(write_pair(tmp_path, old))
    assert await is_trusted(empty, old)
    write_pair(tmp_path, new)
    await empty.clock.advance(11)
    assert (await is_trusted(empty, old), await is_trusted(empty, new)) == (False, True)


async def test_a_bad_pair_is_reported_once_and_the_old_one_stays(empty: Site, tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    settings = write_pair(tmp_path, authority)
    await empty.start(settings)
    other_key = CertificateAuthority.create("other").issue(["127.0.0.1"])[1]
    with structlog.testing.capture_logs() as logs:
        write_key(settings, other_key)
        await empty.clock.advance(60)
    assert [log["log_level"] for log in logs if "certificate" in log["event"]] == ["error"]
    assert await is_trusted(empty, authority)


async def test_a_key_that_vanishes_is_reported_once_and_the_old_one_stays(empty: Site, tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    settings = write_pair(tmp_path, authority)
    await empty.start(settings)
    with structlog.testing.capture_logs() as logs:
        remove_key(settings)
        await empty.clock.advance(60)
    assert [log["log_level"] for log in logs if "certificate" in log["event"]] == ["error"]
    assert await is_trusted(empty, authority)


async def test_a_pair_that_becomes_good_again_is_used(empty: Site, tmp_path: Path) -> None:
    old, new = CertificateAuthority.create("old"), CertificateAuthority.create("new")
    settings = write_pair(tmp_path, old)
    await empty.start(settings)
    write_key(settings, b"half written")
    await empty.clock.advance(11)
    write_pair(tmp_path, new)
    await empty.clock.advance(11)
    assert await is_trusted(empty, new)


async def test_a_body_may_come_after_its_headers(site: Site) -> None:
    host, port = site.process.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
    await writer.drain()
    writer.write(b"{}")
    async with asyncio.timeout(DEADLINE_S):
        head = await reader.readuntil(b"\r\n")
    writer.close()
    assert head == b"HTTP/1.1 200 OK\r\n"


async def test_a_kept_connection_serves_many_requests(site: Site) -> None:
    for _ in range(3):
        assert await post_status(site, f"{site.process.url}/webhook") == 200
