"""trust T-01, the direct ways: whom ``--server`` means is certain before the token goes there."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local.asking.conftest import Said, Stage
from local.asking.listener import Listener, listen, present

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.kube.resources import MUTATING_WEBHOOKS
from gpuloom.web.protocol import INSTALLATION_LABEL, SERVICE_ANNOTATION

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "proof-webhook"
HOST = "pages.proof.svc"
LOCAL = "gpuloom-webhook"


@dataclass(frozen=True)
class Installed:
    """An installation whose authority the test has."""

    authority: CertificateAuthority
    stage: Stage
    folder: Path

    async def ask(self, listener: Listener, *flags: str, host: str = "127.0.0.1", **env: str) -> Said:
        url = f"https://{host}:{listener.port}"
        return await self.stage.gpuloom("pods", "--server", url, *flags, GPULOOM_TOKEN="secret-token", **env)

    def presents(self, *hosts: str, authority: CertificateAuthority | None = None) -> Any:
        return present(authority or self.authority, hosts, self.folder)


def describe(name: str, service: str, authority: bytes) -> dict[str, Any]:
    nobody = {"apiGroups": ["nobody.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
    client = {"url": "https://127.0.0.1:1/webhook", "caBundle": base64.b64encode(authority).decode()}
    webhook = {"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore"}
    return {
        "metadata": {
            "name": name,
            "labels": {INSTALLATION_LABEL: "proof"},
            "annotations": {SERVICE_ANNOTATION: service},
        },
        "webhooks": [{**webhook, "clientConfig": client, "rules": [nobody]}],
    }


@pytest_asyncio.fixture(loop_scope="module")
async def second(stage: Stage, tmp_path: Path) -> AsyncIterator[Installed]:
    """An installation beside the cluster's own."""
    authority = CertificateAuthority.create("the installation's")
    await stage.cluster.client.create(MUTATING_WEBHOOKS, describe(NAME, "proof/pages", authority.pem))
    yield Installed(authority, stage, tmp_path)
    await stage.cluster.client.delete(MUTATING_WEBHOOKS, NAME)


@pytest_asyncio.fixture(loop_scope="module")
async def installed(second: Installed) -> AsyncIterator[Installed]:
    """The only installation of the cluster."""
    client = second.stage.cluster.client
    await client.patch(MUTATING_WEBHOOKS, LOCAL, {"metadata": {"labels": {INSTALLATION_LABEL: None}}})
    yield second
    await client.patch(MUTATING_WEBHOOKS, LOCAL, {"metadata": {"labels": {INSTALLATION_LABEL: "local"}}})


def check_refused(said: Said, listener: Listener, *words: str) -> None:
    assert listener.headers == []
    assert (said.code, said.out) == (3, ""), said
    (line,) = said.err.splitlines()
    assert [word for word in words if word not in line] == [], line


async def test_a_port_forward_is_recognized_by_the_installations_authority(installed: Installed) -> None:
    async with listen(installed.presents(HOST)) as pages:
        said = await installed.ask(pages)
    assert said.code == 0, said.err
    assert pages.has_heard("secret-token")


async def test_another_authoritys_certificate_gets_no_token(installed: Installed) -> None:
    tenant = CertificateAuthority.create("a tenant's")
    async with listen(installed.presents(HOST, "127.0.0.1", authority=tenant)) as bait:
        said = await installed.ask(bait)
    check_refused(said, bait, "no token was sent", "--server-ca")


async def test_a_certificate_for_another_service_gets_no_token(installed: Installed) -> None:
    async with listen(installed.presents("other.proof.svc", "127.0.0.1")) as bait:
        said = await installed.ask(bait)
    check_refused(said, bait, "no token was sent", "--service")


async def test_an_authority_that_is_given_counts_and_the_urls_host(installed: Installed, tmp_path: Path) -> None:
    authority = CertificateAuthority.create("given")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    async with listen(installed.presents("127.0.0.1", authority=authority)) as pages:
        said = await installed.ask(pages, "--server-ca", str(tmp_path / "ca.pem"))
    assert said.code == 0, said.err
    assert pages.has_heard("secret-token")


async def test_with_a_service_the_certificate_must_be_the_services(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(installed.authority.pem)
    flags = ("--server-ca", str(tmp_path / "ca.pem"), "--service", "proof/pages")
    async with listen(installed.presents("127.0.0.1")) as bait, listen(installed.presents(HOST)) as pages:
        check_refused(await installed.ask(bait, *flags), bait, "no token was sent")
        assert (await installed.ask(pages, *flags)).code == 0


async def test_the_installations_authority_does_not_vouch_where_the_given_one_does_not(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(CertificateAuthority.create("given").pem)
    async with listen(installed.presents(HOST, "127.0.0.1")) as bait:
        check_refused(await installed.ask(bait, "--server-ca", str(tmp_path / "ca.pem")), bait, "no token was sent")


async def test_without_a_cluster_an_address_gets_no_token(installed: Installed, tmp_path: Path) -> None:
    async with listen(installed.presents(HOST, "127.0.0.1")) as bait:
        said = await installed.ask(bait, KUBECONFIG=str(tmp_path / "none"))
    check_refused(said, bait, "no token is sent", "--server-ca")


async def test_an_installation_without_an_authority_vouches_for_nobody(installed: Installed) -> None:
    empty = describe(NAME, "proof/pages", b"")
    await installed.stage.cluster.client.patch(MUTATING_WEBHOOKS, NAME, {"webhooks": empty["webhooks"]})
    async with listen(installed.presents(HOST)) as bait:
        check_refused(await installed.ask(bait), bait, "no caBundle yet", "--server-ca")


async def test_of_several_installations_none_is_asked(second: Installed) -> None:
    for flags in ((), ("--server", "https://127.0.0.1:1")):
        said = await second.stage.gpuloom("pods", *flags)
        assert (said.code, said.out) == (3, ""), said
        (line,) = said.err.splitlines()
        assert "gpuloom-webhook (kube-system/gpuloom-web), proof-webhook (proof/pages)" in line
        assert "--service NAMESPACE/NAME" in line


async def test_a_flag_chooses_among_several_installations(second: Installed) -> None:
    said = await second.stage.gpuloom("pods", "-o", "name", "--service", "kube-system/gpuloom-web")
    assert (said.code, said.out, said.err) == (0, "pod/runs\n", "")
    async with listen(second.presents(HOST)) as pages:
        assert (await second.ask(pages, GPULOOM_SERVICE="proof/pages")).code == 0


async def test_a_service_of_no_installation_is_not_recognized_by_another_ones_authority(second: Installed) -> None:
    async with listen(second.presents("pages.elsewhere.svc")) as bait:
        said = await second.ask(bait, "--service", "elsewhere/pages")
    check_refused(said, bait, "no installation says that its Service is elsewhere/pages", "--server-ca")


async def test_plain_http_gets_no_token_beyond_this_machine(stage: Stage) -> None:
    async with listen() as bait:
        said = await stage.gpuloom("pods", "--server", f"http://0.0.0.0:{bait.port}", GPULOOM_TOKEN="secret-token")
    check_refused(said, bait, "plain http, so no token is sent", "use https")


async def test_a_redirect_takes_no_token_along(stage: Stage) -> None:
    async with listen() as bait, listen(sends_to=f"http://localhost:{bait.port}") as sends:
        said = await stage.gpuloom("pods", "--server", f"http://127.0.0.1:{sends.port}", GPULOOM_TOKEN="secret-token")
    assert sends.has_heard("secret-token")
    assert bait.headers == []
    assert said.code == 3


@pytest.mark.parametrize("text", ["gpuloom-web", "a/b/c", "../x", "a/b:web", "A/b", "/b", "a/"])
async def test_what_names_no_service_is_wrong_usage(stage: Stage, text: str) -> None:
    said = await stage.gpuloom("pods", "--service", text)
    assert (said.code, said.out) == (2, "")
    assert "names no Service: give NAMESPACE/NAME" in said.err
