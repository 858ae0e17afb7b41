"""Which port answers what to whom (trust T-02, T-10, T-16)."""

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from local.scheduler.site import DEFAULTS, Site

from gpuloom.local.apiserver import CertificateAuthority
from gpuloom.scheduler import SchedulerSettings, SettingsError
from gpuloom.scheduler.metrics.exposition import write_exposition
from gpuloom.serving.addresses import CannotServeError

ANYBODY = ssl.create_default_context()
ANYBODY.check_hostname = False
ANYBODY.verify_mode = ssl.CERT_NONE
METRICS = dataclasses.replace(DEFAULTS, metrics_bind_address="127.0.0.1:0", metrics_auth=True)


def with_callers(directory: Path, authority: trustme.CA, **settings: Any) -> SchedulerSettings:
    """Settings of a scheduler that answers the webhook to those alone who have a certificate of an authority."""
    for name, text in zip(("crt", "key"), CertificateAuthority.create().issue(["127.0.0.1"]), strict=True):
        (directory / f"tls.{name}").write_bytes(text)
    (directory / "callers.crt").write_bytes(authority.cert_pem.bytes())
    return dataclasses.replace(
        DEFAULTS,
        cert_file=str(directory / "tls.crt"),
        key_file=str(directory / "tls.key"),
        webhook_client_ca=str(directory / "callers.crt"),
        **settings,
    )


def write_authority(settings: SchedulerSettings, authority: trustme.CA) -> None:
    write_callers(settings, authority.cert_pem.bytes())


def write_callers(settings: SchedulerSettings, text: bytes) -> None:
    Path(settings.webhook_client_ca).write_bytes(text)


def present(authority: trustme.CA, name: str) -> ssl.SSLContext:
    """Make what a caller with a certificate connects with."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    authority.issue_cert(name, common_name=name).configure_cert(context)
    return context


async def ask(site: Site, context: ssl.SSLContext, path: str = "/webhook", method: str = "POST") -> int | str:
    """Return the status of an answer, or how the connection ended."""
    headers = {"Content-Type": "application/json", "Connection": "close"}
    url = f"{site.process.url}{path}"
    try:
        async with site.session.request(method, url, ssl=context, data=b"{}", headers=headers) as reply:
            return reply.status
    except OSError:
        return "refused"


async def test_the_webhook_answers_only_callers_of_the_authority(empty: Site, tmp_path: Path) -> None:
    ours, others = trustme.CA(), trustme.CA()
    await empty.start(with_callers(tmp_path, ours))
    found = [await ask(empty, ANYBODY), await ask(empty, present(ours, "api-server"))]
    assert found == [403, 200]
    assert await ask(empty, present(others, "somebody")) != 200
    assert await ask(empty, ANYBODY, "/healthz", "GET") == 200


async def test_no_other_port_asks_for_certificates(empty: Site, tmp_path: Path) -> None:
    settings = with_callers(tmp_path, trustme.CA())
    await empty.start(dataclasses.replace(settings, metrics_bind_address="127.0.0.1:0", metrics_auth=True))
    url = f"{empty.process.urls.metrics}/metrics"
    async with empty.session.get(url, ssl=present(trustme.CA(), "somebody")) as reply:
        assert reply.status == 401


async def test_only_the_names_that_count_may_call_the_webhook(empty: Site, tmp_path: Path) -> None:
    ours = trustme.CA()
    await empty.start(with_callers(tmp_path, ours, webhook_client_names="api-server, other"))
    found = [await ask(empty, present(ours, name)) for name in ("api-server", "kubelet")]
    assert found == [200, 403]


async def test_who_is_not_known_is_refused_before_the_body_was_sent(empty: Site, tmp_path: Path) -> None:
    await empty.start(with_callers(tmp_path, trustme.CA()))
    host, port = empty.process.url.removeprefix("https://").split(":")
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=ANYBODY)
        writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 403 Forbidden\r\n"
        writer.close()


async def test_new_authorities_of_callers_count_without_a_restart(empty: Site, tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    settings = with_callers(tmp_path, old)
    await empty.start(settings)
    write_authority(settings, new)
    await empty.clock.advance(11)
    assert await ask(empty, present(new, "api-server")) == 200
    assert await ask(empty, present(old, "api-server")) != 200


@pytest.mark.parametrize("flags", [{"webhook_client_ca": "x"}, {"webhook_client_names": "x"}])
def test_callers_are_not_checked_where_nobody_would_be_asked(flags: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="--webhook-client-ca"):
        dataclasses.replace(DEFAULTS, **flags)


def only_get(path: str):
    return lambda verb, what, _where: (verb, what) == ("get", path)


async def read_metrics(site: Site, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with site.session.get(f"{site.process.urls.metrics}/metrics", headers=headers, ssl=ANYBODY) as reply:
        return reply.status, await reply.text()


async def test_metrics_are_for_those_whose_token_may_get_them(empty: Site) -> None:
    """T-10."""
    await empty.start(METRICS)
    await empty.process.wait_synced()
    add = empty.server.accounts.add
    reader, tenant = add("reader", only_get("/metrics")), add("tenant", only_get("/healthz"))
    found = [(await read_metrics(empty, token))[0] for token in ("", "wrong", tenant, reader)]
    assert found == [401, 401, 403, 200]
    assert empty.process.urls.metrics.startswith("https://")


async def test_metrics_are_open_and_plain_where_that_is_wanted(empty: Site) -> None:
    await empty.start(dataclasses.replace(METRICS, metrics_auth=False))
    assert empty.process.urls.metrics.startswith("http://")
    assert (await read_metrics(empty))[0] == 200


async def test_metrics_are_written_once_for_all_who_ask_at_a_time(empty: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """T-10."""
    made = []

    def write(*args: Any) -> AsyncIterator[bytes]:
        made.append(args)
        return write_exposition(*args)

    monkeypatch.setattr("gpuloom.scheduler.metrics.process.write_exposition", write)
    await empty.start(dataclasses.replace(METRICS, metrics_auth=False))
    texts = await asyncio.gather(*(read_metrics(empty) for _ in range(20)))
    assert (len(made), len(set(texts))) == (1, 1)


def own_address() -> str:
    """Return an address of this machine that is not loopback, as others see it; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


@asynccontextmanager
async def from_outside(site: Site) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Whoever reaches the main port by the machine's address."""
    port = site.process.url.rpartition(":")[2]
    async with aiohttp.ClientSession() as session:
        yield session, f"http://{own_address()}:{port}"


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_nobody_from_outside_places_or_binds_on_the_main_port(empty: Site, verb: str) -> None:
    """T-16."""
    await empty.start(dataclasses.replace(DEFAULTS, http_bind="0.0.0.0:0"))
    async with from_outside(empty) as (session, url), session.post(f"{url}/{verb}", data=b"{}") as reply:
        assert reply.status == 403
    near = f"http://127.0.0.1:{empty.process.url.rpartition(':')[2]}/{verb}"
    async with empty.session.post(near, data=b"{}") as reply:
        assert reply.status == 200


async def test_the_main_port_is_open_to_all_where_that_is_said(empty: Site) -> None:
    await empty.start(dataclasses.replace(DEFAULTS, http_bind="0.0.0.0:0", extender_on_main_port=True))
    async with from_outside(empty) as (session, url), session.post(f"{url}/bind", data=b"{}") as reply:
        assert reply.status == 200


async def test_what_the_process_does_is_told_to_those_whose_token_may_get_it(empty: Site) -> None:
    """T-16."""
    await empty.start(dataclasses.replace(DEFAULTS, http_bind="0.0.0.0:0", profiling=True))
    reader = empty.server.accounts.add("reader", only_get("/debug/pprof/goroutine"))
    found = []
    async with from_outside(empty) as (session, url):
        for token in ("", reader):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{url}/debug/pprof/goroutine", headers=headers) as reply:
                found.append(reply.status)
    assert found == [401, 200]


async def test_an_empty_file_leaves_the_authorities_as_they_are(empty: Site, tmp_path: Path) -> None:
    ours = trustme.CA()
    settings = with_callers(tmp_path, ours)
    await empty.start(settings)
    write_callers(settings, b"")
    await empty.clock.advance(11)
    assert await ask(empty, present(ours, "api-server")) == 200


async def test_an_empty_file_at_the_start_is_refused(empty: Site, tmp_path: Path) -> None:
    settings = with_callers(tmp_path, trustme.CA())
    write_callers(settings, b"\n")
    with pytest.raises(CannotServeError, match="is empty: give the authorities of callers"):
        await empty.start(settings)
