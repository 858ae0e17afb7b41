"""Who believes whom over TLS."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from unit.kube.scripted import ScriptedServer, reply

from gpuloom.kube import NODES, Credentials, KubeClient, UnreachableError, load_kubeconfig
from gpuloom.kube.pooled import PooledConnections
from gpuloom.kube.threaded import ThreadedConnections

NODE = reply({"metadata": {"name": "n"}})


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    """A server for 127.0.0.1 that takes client certificates of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def write(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    config = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "config"
    file.write_bytes(msgspec.yaml.encode(config))
    return file


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@pytest.fixture(autouse=True, params=[PooledConnections, ThreadedConnections])
def _connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these holds for both kinds of connections."""
    monkeypatch.setattr("gpuloom.kube.client._make_pool", request.param)


async def ask(credentials: Credentials) -> str:
    async with KubeClient(credentials) as client:
        return (await client.get(NODES, "n")).name


async def test_a_server_of_the_given_authority_is_believed(
    authority: trustme.CA, server_context: ssl.SSLContext
) -> None:
    async with ScriptedServer(NODE, tls=server_context) as server:
        assert await ask(Credentials.for_token(server.url, "t", ca_pem=authority.cert_pem.bytes())) == "n"


async def test_a_server_of_another_authority_is_not(server_context: ssl.SSLContext) -> None:
    async with ScriptedServer(NODE, tls=server_context) as server:
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await ask(Credentials.for_token(server.url, "t", ca_pem=trustme.CA().cert_pem.bytes()))
    assert server.seen == []


async def test_https_in_capitals_is_https(authority: trustme.CA, server_context: ssl.SSLContext) -> None:
    async with ScriptedServer(NODE, tls=server_context) as server:
        url = server.url.replace("https", "HTTPS")
        credentials = Credentials.for_token(url, "t", ca_pem=authority.cert_pem.bytes())
        assert await ask(credentials) == "n"


async def test_insecure_believes_anybody(tmp_path: Path, server_context: ssl.SSLContext) -> None:
    async with ScriptedServer(NODE, tls=server_context) as server:
        cluster = {"server": server.url, "insecure-skip-tls-verify": True}
        assert await ask(load_kubeconfig(write(tmp_path, cluster, {}))) == "n"


async def test_a_server_under_another_name_is_believed_by_that_name_only(tmp_path: Path, authority: trustme.CA) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kubernetes.internal").configure_cert(context)
    async with ScriptedServer(NODE, tls=context) as server:
        cluster = {"server": server.url, "certificate-authority-data": encoded(authority.cert_pem.bytes())}
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await ask(load_kubeconfig(write(tmp_path, cluster, {})))
        named = {**cluster, "tls-server-name": "kubernetes.internal"}
        assert await ask(load_kubeconfig(write(tmp_path, named, {}))) == "n"


@pytest.mark.parametrize("form", ["data", "files"])
async def test_a_client_certificate_is_presented(
    tmp_path: Path, authority: trustme.CA, server_context: ssl.SSLContext, form: str
) -> None:
    client = authority.issue_cert("client.internal", common_name="gpuloom")
    certificate, key = client.cert_chain_pems[0].bytes(), client.private_key_pem.bytes()
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    user = {
        "data": {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)},
        "files": {"client-certificate": "cert.pem", "client-key": "key.pem"},
    }[form]
    async with ScriptedServer(NODE, tls=server_context) as server:
        cluster = {"server": server.url, "certificate-authority": "ca.crt"}
        await ask(load_kubeconfig(write(tmp_path, cluster, user)))
    subject = {key: value for part in server.seen[0].certificate["subject"] for key, value in part}
    assert subject["commonName"] == "gpuloom"


async def test_a_programs_certificate_is_presented(
    tmp_path: Path, authority: trustme.CA, server_context: ssl.SSLContext
) -> None:
    client = authority.issue_cert("client.internal", common_name="from-a-program")
    status = {
        "clientCertificateData": client.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": client.private_key_pem.bytes().decode(),
    }
    (tmp_path / "answer").write_bytes(msgspec.json.encode({"kind": "ExecCredential", "status": status}))
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(tmp_path / "answer")],
        "provideClusterInfo": True,
    }
    async with ScriptedServer(NODE, tls=server_context) as server:
        cluster = {"server": server.url, "certificate-authority-data": encoded(authority.cert_pem.bytes())}
        await ask(load_kubeconfig(write(tmp_path, cluster, {"exec": plugin})))
    subject = {key: value for part in server.seen[0].certificate["subject"] for key, value in part}
    assert subject["commonName"] == "from-a-program"


async def test_the_tls_context_is_kept_while_the_certificate_stays(authority: trustme.CA) -> None:
    credentials = Credentials.for_token("https://127.0.0.1:1", "t", ca_pem=authority.cert_pem.bytes())
    first = await credentials.access()
    assert (await credentials.access()).ssl_context is first.ssl_context


def test_no_key_is_left_in_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: trustme.CA
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client = authority.issue_cert("client.internal")
    user = {
        "client-certificate-data": encoded(client.cert_chain_pems[0].bytes()),
        "client-key-data": encoded(client.private_key_pem.bytes()),
    }
    folder = tmp_path / "kubeconfig"
    folder.mkdir()
    asyncio.run(load_kubeconfig(write(folder, {"server": "https://127.0.0.1:1"}, user)).access())
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(("host", "is_shown"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
async def test_over_plain_http_a_token_is_shown_to_this_machine_only(host: str, *, is_shown: bool) -> None:
    """trust T-01: kubectl shows none at all."""
    async with ScriptedServer(NODE) as server:
        url = server.url.replace("127.0.0.1", host)
        credentials = Credentials.for_token(url, "t")
        assert await ask(credentials) == "n"
        (seen,) = server.seen
    assert ("Authorization" in seen.headers) is is_shown
    assert (await credentials.access()).proof.token == ("t" if is_shown else "")


async def test_an_authority_that_is_replaced_is_believed_without_a_restart(
    tmp_path: Path, authority: trustme.CA, server_context: ssl.SSLContext
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    async with ScriptedServer(NODE, tls=server_context) as server:
        cluster = {"server": server.url, "certificate-authority": "ca.crt"}
        async with KubeClient(load_kubeconfig(write(tmp_path, cluster, {"token": "t"}))) as client:
            with pytest.raises(UnreachableError, match="certificate verify failed"):
                await client.get(NODES, "n")
            file.write_bytes(authority.cert_pem.bytes())
            assert (await client.get(NODES, "n")).name == "n"
