"""Certificates that replicas make and renew themselves, and the webhook configuration that follows (binding 6)."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from local.scheduler.clock import ManualClock, poll, poll_answer
from local.scheduler.site import DEFAULTS, Site, open_site

from gpuloom.kube import MUTATING_WEBHOOKS, PODS, SECRETS, NotFoundError
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.webhooks import describe_webhook
from gpuloom.scheduler import CannotServeError, SchedulerProcess, SettingsError
from gpuloom.scheduler.certificates.lifecycle import LIFETIME, CertificateSet, plan
from gpuloom.scheduler.certificates.secret import LABEL, read_certificates, write_certificates
from gpuloom.serving.presented import Pair
from gpuloom.wire.objects import Secret, WebhookConfiguration

NAMESPACE, NAME, WEBHOOK = "kube-system", "gpuloom-tls", "gpuloom-webhook"
SETTINGS = replace(DEFAULTS, tls_self_manage=f"{NAMESPACE}/{NAME}", tls_hosts="127.0.0.1", tls_webhook=WEBHOOK)


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server without a scheduler; time begins now, because certificates are checked by the machine's clock."""
    async with open_site(tmp_path, ManualClock(datetime.now(UTC))) as site:
        yield site


async def read_secret(site: Site) -> Secret:
    return await site.client.get(SECRETS, NAME, namespace=NAMESPACE)


async def certificates_of(site: Site) -> CertificateSet:
    return read_certificates(await read_secret(site))


async def put(site: Site, certificates: CertificateSet) -> None:
    """Put certificates into the Secret, as another replica does."""
    body: dict[str, Any] = {
        "metadata": {"name": NAME, "labels": {LABEL: "tls"}},
        "data": write_certificates(certificates),
    }
    try:
        await site.client.patch(SECRETS, NAME, body, namespace=NAMESPACE)
    except NotFoundError:
        body["data"] = {key: value for key, value in body["data"].items() if value is not None}
        await site.client.create(SECRETS, body, namespace=NAMESPACE)


async def configure(site: Site, url: str = "https://127.0.0.1:1") -> None:
    """Create the webhook configuration as the chart does."""
    await site.client.create(MUTATING_WEBHOOKS, describe_webhook(f"{url}/webhook", b""))


async def configuration_of(site: Site) -> WebhookConfiguration:
    return await site.client.get(MUTATING_WEBHOOKS, WEBHOOK)


async def bundles_of(site: Site) -> set[bytes]:
    return {base64.b64decode(one.client_config.ca_bundle) for one in (await configuration_of(site)).webhooks or ()}


async def wait_for_bundle(site: Site, bundle: bytes) -> None:
    async def is_there() -> bool:
        return await bundles_of(site) == {bundle}

    await poll_answer(is_there)


async def certificate_of(url: str, trusted: Sequence[bytes]) -> bytes:
    """The certificate that a server presents (DER) to somebody who trusts these authorities."""
    tls = ssl.create_default_context(cadata=b"".join(trusted).decode())
    host, port = url.removeprefix("https://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


async def serves(site: Site, certificates: CertificateSet) -> bool:
    assert certificates.served is not None
    return await certificate_of(site.process.url, certificates.authorities) == der(certificates.served.certificate)


async def test_the_first_replica_makes_what_callers_can_trust(empty: Site) -> None:
    await empty.start(SETTINGS)
    assert await serves(empty, await certificates_of(empty))


async def test_the_secret_is_one_that_others_can_use(empty: Site) -> None:
    await empty.start(SETTINGS)
    secret = await read_secret(empty)
    assert (secret.data or {}).keys() == {"tls.crt", "tls.key", "ca.crt"}


async def test_a_replica_takes_what_is_there(empty: Site) -> None:
    certificates = plan(CertificateSet(), ["127.0.0.1"], datetime.now(UTC), published=True)
    await put(empty, certificates)
    await empty.start(SETTINGS)
    assert (await serves(empty, certificates), await certificates_of(empty)) == (True, certificates)


async def test_an_empty_secret_that_the_chart_made_is_filled(empty: Site) -> None:
    await empty.client.create(SECRETS, {"metadata": {"name": NAME}}, namespace=NAMESPACE)
    await empty.start(SETTINGS)
    assert await serves(empty, await certificates_of(empty))


async def test_replicas_that_start_together_present_one_certificate(empty: Site) -> None:
    """binding 6 certificates race."""
    replicas = [SchedulerProcess(SETTINGS, empty.client, clocks=empty.clock.clocks) for _ in range(3)]
    async with replicas[0], replicas[1], replicas[2]:
        authorities = (await certificates_of(empty)).authorities
        presented = {await certificate_of(replica.url, authorities) for replica in replicas}
    assert len(presented) == 1


async def test_a_replica_that_comes_second_takes_the_firsts(empty: Site) -> None:
    certificates = plan(CertificateSet(), ["127.0.0.1"], datetime.now(UTC), published=True)
    await put(empty, certificates)
    empty.fail("GET", f"/secrets/{NAME}$", status=404)
    await empty.start(SETTINGS)
    assert await serves(empty, certificates)


async def test_the_webhook_configuration_is_told_whom_to_trust(empty: Site) -> None:
    await empty.start(SETTINGS)
    await configure(empty, empty.process.url)
    await wait_for_bundle(empty, (await certificates_of(empty)).bundle)
    created = await empty.client.create(PODS, pod_manifest("p", memory_mib=100), namespace="default")
    assert created.spec.scheduler_name == "hami-scheduler"


@pytest.mark.parametrize("bundle", ["", base64.b64encode(b"somebody else").decode()], ids=["emptied", "replaced"])
async def test_a_configuration_that_somebody_changes_is_repaired(empty: Site, bundle: str) -> None:
    """binding 6 certificates repair."""
    await empty.start(SETTINGS)
    await configure(empty)
    wanted = (await certificates_of(empty)).bundle
    await wait_for_bundle(empty, wanted)
    changes = [{"name": "vgpu.hami.io", "clientConfig": {"caBundle": bundle}}]
    await empty.client.patch(MUTATING_WEBHOOKS, WEBHOOK, {"webhooks": changes}, lists_by_key=True)
    await wait_for_bundle(empty, wanted)


async def test_a_configuration_that_is_made_again_is_told_again(empty: Site) -> None:
    await empty.start(SETTINGS)
    await configure(empty)
    wanted = (await certificates_of(empty)).bundle
    await wait_for_bundle(empty, wanted)
    await empty.client.delete(MUTATING_WEBHOOKS, WEBHOOK)
    await configure(empty)
    await wait_for_bundle(empty, wanted)


async def test_nothing_else_of_the_configuration_changes(empty: Site) -> None:
    await empty.start(SETTINGS)
    described = describe_webhook("https://127.0.0.1:1/webhook", b"")
    await configure(empty)
    await wait_for_bundle(empty, (await certificates_of(empty)).bundle)
    async with empty.session.get(
        f"{empty.server.url}{MUTATING_WEBHOOKS.path(name=WEBHOOK)}",
        headers={"Authorization": f"Bearer {empty.server.token}"},
    ) as reply:
        webhook = (await reply.json())["webhooks"][0]
    del webhook["clientConfig"]["caBundle"], described["webhooks"][0]["clientConfig"]["caBundle"]
    assert webhook == described["webhooks"][0]


def due() -> CertificateSet:
    """A set whose served certificate is to be renewed now."""
    return plan(CertificateSet(), ["127.0.0.1"], datetime.now(UTC) - LIFETIME + timedelta(days=20), published=True)


async def wait_for_renewal(site: Site) -> CertificateSet:
    async def is_renewed() -> bool:
        return (await certificates_of(site)).next is not None

    await poll_answer(is_renewed)
    return await certificates_of(site)


async def test_a_renewal_publishes_both_authorities_before_anything_new_is_served(empty: Site) -> None:
    """binding 6 certificates order."""
    old = due()
    await put(empty, old)
    await configure(empty)
    await empty.start(SETTINGS)
    certificates = await wait_for_renewal(empty)
    await wait_for_bundle(empty, certificates.bundle)
    await empty.clock.advance(29)
    assert certificates.authorities[:1] == old.authorities
    assert len(certificates.authorities) == 2
    assert await serves(empty, old)


async def test_a_renewed_certificate_is_served_once_its_authority_is_known_everywhere(empty: Site) -> None:
    await put(empty, due())
    await configure(empty)
    await empty.start(SETTINGS)
    certificates = await wait_for_renewal(empty)
    await wait_for_bundle(empty, certificates.bundle)
    await empty.clock.run_until(lambda: is_presented(empty, certificates.next))
    assert await serves(empty, CertificateSet(certificates.next, None, certificates.authorities))
    assert await bundles_of(empty) == {certificates.bundle}


def is_presented(site: Site, pair: Pair | None) -> bool:
    certificates = site.process.certificates
    return certificates is not None and certificates.presented.pair == pair


async def test_what_another_replica_renewed_is_served_at_once(empty: Site) -> None:
    await empty.start(SETTINGS)
    other = plan(CertificateSet(), ["127.0.0.1"], datetime.now(UTC), published=True)
    await put(
        empty, CertificateSet(other.served, None, (*(await certificates_of(empty)).authorities, *other.authorities))
    )
    await poll(lambda: is_presented(empty, other.served))


async def test_renewal_without_a_configuration_waits_for_nothing(empty: Site) -> None:
    old = due()
    await put(empty, old)
    await empty.start(replace(SETTINGS, tls_webhook=""))
    certificates = empty.process.certificates
    assert certificates is not None
    await empty.clock.run_until(lambda: certificates.presented.pair != old.served)


async def test_a_secret_that_somebody_deletes_is_made_again_as_it_was(empty: Site) -> None:
    await empty.start(SETTINGS)
    before = await certificates_of(empty)
    await empty.client.delete(SECRETS, NAME, namespace=NAMESPACE)
    await poll_answer(lambda: is_there(empty))
    assert await certificates_of(empty) == before


NO_RIGHT = f"kubectl -n {NAMESPACE} create secret generic {NAME}"


async def test_who_may_not_make_a_secret_that_is_gone_says_how_to_make_it(empty: Site) -> None:
    empty.fail("POST", "/secrets$", status=403)
    with pytest.raises(CannotServeError, match=f"Secret {NAMESPACE}/{NAME} is gone.*{NO_RIGHT}"):
        await SchedulerProcess(SETTINGS, empty.client).__aenter__()


async def test_a_deleted_secret_that_somebody_makes_again_is_filled_as_it_was(empty: Site) -> None:
    await empty.start(SETTINGS)
    before = await certificates_of(empty)
    empty.fail("POST", "/secrets$", status=403)
    with structlog.testing.capture_logs() as logs:
        await empty.client.delete(SECRETS, NAME, namespace=NAMESPACE)
        await poll(lambda: any(NO_RIGHT in str(line.get("cause")) for line in logs))
    await empty.client.create(SECRETS, {"metadata": {"name": NAME}}, namespace=NAMESPACE)
    await poll_answer(lambda: is_filled(empty))
    assert (await certificates_of(empty), await serves(empty, before)) == (before, True)


async def test_a_configuration_is_repaired_also_while_the_secret_is_gone(empty: Site) -> None:
    await empty.start(SETTINGS)
    await configure(empty)
    wanted = (await certificates_of(empty)).bundle
    await wait_for_bundle(empty, wanted)
    empty.fail("POST", "/secrets$", status=403, times=1000)
    await empty.client.delete(SECRETS, NAME, namespace=NAMESPACE)
    changes = [{"name": "vgpu.hami.io", "clientConfig": {"caBundle": ""}}]
    await empty.client.patch(MUTATING_WEBHOOKS, WEBHOOK, {"webhooks": changes}, lists_by_key=True)
    await wait_for_bundle(empty, wanted)


async def is_filled(site: Site) -> bool:
    return bool((await read_secret(site)).data)


async def is_there(site: Site) -> bool:
    try:
        await read_secret(site)
    except NotFoundError:
        return False
    return True


async def test_a_secret_that_somebody_breaks_is_mended(empty: Site) -> None:
    await empty.start(SETTINGS)
    before = await certificates_of(empty)
    await empty.client.patch(SECRETS, NAME, {"data": {"tls.key": "bm9uc2Vuc2U="}}, namespace=NAMESPACE)
    certificates = empty.process.certificates
    assert certificates is not None
    await poll(lambda: certificates.presented.pair != before.served)
    assert await serves(empty, await certificates_of(empty))


async def test_a_conflict_while_changing_the_secret_is_no_harm(empty: Site) -> None:
    await put(empty, due())
    await configure(empty)
    conflict = empty.fail("PATCH", f"/secrets/{NAME}$", status=409)
    started = asyncio.create_task(empty.start(SETTINGS))
    await empty.clock.run_until(started.done)
    await started
    assert empty.has_happened(conflict)
    assert (await wait_for_renewal(empty)).next is not None


async def test_the_secret_of_somebody_else_is_never_touched(empty: Site) -> None:
    data = {"password": "c2VjcmV0"}
    await empty.client.create(SECRETS, {"metadata": {"name": NAME}, "data": data}, namespace=NAMESPACE)
    with pytest.raises(CannotServeError, match="holds something else"):
        await SchedulerProcess(SETTINGS, empty.client).__aenter__()
    assert (await read_secret(empty)).data == data


async def test_a_missing_right_is_one_clear_error(empty: Site) -> None:
    empty.fail("GET", f"/secrets/{NAME}$", status=403)
    with pytest.raises(CannotServeError, match=r"--tls-self-manage: get Secret kube-system/gpuloom-tls.*403"):
        await SchedulerProcess(SETTINGS, empty.client).__aenter__()


async def test_an_api_server_that_is_down_is_waited_for(empty: Site) -> None:
    down = empty.fail("GET", f"/secrets/{NAME}$", status=500)
    started = asyncio.create_task(empty.start(SETTINGS))
    await empty.clock.run_until(started.done)
    await started
    assert empty.has_happened(down)
    assert await serves(empty, await certificates_of(empty))


async def test_a_key_is_never_logged(empty: Site) -> None:
    await put(empty, due())
    with structlog.testing.capture_logs() as logs:
        await configure(empty)
        await empty.start(SETTINGS)
        await wait_for_bundle(empty, (await wait_for_renewal(empty)).bundle)
    assert logs
    assert "PRIVATE" not in str(logs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tls_hosts": ""}, "needs --tls-hosts"),
        ({"tls_self_manage": NAME}, "in which namespace"),
        ({"cert_file": "a", "key_file": "b"}, "either"),
        ({"tls_self_manage": ""}, "belong to --tls-self-manage"),
    ],
)
def test_flags_that_do_not_go_together_are_one_clear_error(changes: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(SETTINGS, **changes)  # type: ignore[arg-type]


def test_without_a_namespace_the_secret_is_in_that_of_the_process() -> None:
    settings = replace(SETTINGS, tls_self_manage=NAME, pod_namespace="here")
    assert settings.tls_secret == ("here", NAME)
