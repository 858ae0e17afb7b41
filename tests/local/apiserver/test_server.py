"""The server's own doors: ports, TLS, tokens, kubeconfig."""

import asyncio
import errno
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest
from contract.client import Client

from gpuloom.local.apiserver import LocalApiServer


async def test_a_taken_port_is_one_clear_line(server: LocalApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(OSError, match=f"127.0.0.1:{port} is in use: choose another port with --port") as caught:
        await LocalApiServer(port=port).__aenter__()
    assert caught.value.errno == errno.EADDRINUSE


async def test_the_certificate_is_trusted_through_the_authority_only(
    server: LocalApiServer, session: aiohttp.ClientSession
) -> None:
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await session.get(f"{server.url}/version", ssl=ssl.create_default_context())


async def test_the_certificate_passes_strict_verification(
    server: LocalApiServer, session: aiohttp.ClientSession
) -> None:
    tls = ssl.create_default_context(cadata=server.ca_pem.decode())
    tls.verify_flags |= ssl.VERIFY_X509_STRICT
    async with session.get(f"{server.url}/version", ssl=tls) as response:
        assert response.status == 200


async def test_without_tls_it_speaks_plain_http(session: aiohttp.ClientSession) -> None:
    async with (
        LocalApiServer(tls=False) as server,
        session.get(f"{server.url}/api/v1/nodes", headers={"Authorization": f"Bearer {server.token}"}) as response,
    ):
        assert (server.url.partition(":")[0], server.ca_pem, response.status) == ("http", b"", 200)


async def test_kubectl_reads_the_old_description_as_one_of_no_kind(
    server: LocalApiServer, session: aiohttp.ClientSession
) -> None:
    """It asks for protobuf, about kinds that the new one has not; the message without fields has no bytes."""
    accepted = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    tls = ssl.create_default_context(cadata=server.ca_pem.decode())
    headers = {"Authorization": f"Bearer {server.token}"} | accepted
    async with session.get(f"{server.url}/openapi/v2", headers=headers, ssl=tls) as response:
        assert (response.status, await response.read()) == (200, b"")
        assert response.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


async def test_tokens_differ_between_servers(server: LocalApiServer) -> None:
    assert LocalApiServer().token != server.token


async def test_the_kubeconfig_is_private_and_complete(server: LocalApiServer, tmp_path: Path) -> None:
    path = tmp_path / "below" / "kubeconfig"
    server.write_kubeconfig(path)
    config = msgspec.yaml.decode(path.read_bytes())
    assert path.stat().st_mode & 0o777 == 0o600
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert config["users"][0]["user"]["token"] == server.token


async def test_a_readable_file_in_the_kubeconfigs_place_becomes_private(server: LocalApiServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    server.write_kubeconfig(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_open_watches_end_with_the_server(session: aiohttp.ClientSession) -> None:
    async with LocalApiServer(tls=False) as server:
        response = await session.get(
            f"{server.url}/api/v1/pods?watch=1", headers={"Authorization": f"Bearer {server.token}"}
        )
    async with asyncio.timeout(5), response:
        assert await response.read() == b""


async def test_every_cluster_begins_with_its_namespaces(api: Client) -> None:
    listed = await api.get("/api/v1/namespaces")
    names = [item["metadata"]["name"] for item in listed["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_a_namespace_takes_its_content_along(api: Client) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "gone"}})
    await api.create("/api/v1/namespaces/gone/configmaps", {"metadata": {"name": "m"}})
    await api.delete("/api/v1/namespaces/gone")
    assert (await api.call("GET", "/api/v1/namespaces/gone")).code == 404
    assert (await api.get("/api/v1/configmaps"))["items"] == []


async def test_the_end_of_a_pod_frees_its_quota(api: Client) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    await api.create_pod("p")
    await api.delete(f"{api.pods}/p")
    assert (await api.get(f"{quotas}/q"))["status"] == {"hard": {"pods": "1"}, "used": {"pods": "0"}}


@pytest.mark.parametrize(
    ("method", "below", "what"),
    [("GET", "log", "logs"), ("POST", "exec", "exec"), ("POST", "portforward", "port-forward")],
)
async def test_what_needs_containers_is_refused_with_advice(api: Client, method: str, below: str, what: str) -> None:
    await api.create_pod("p")
    answer = await api.call(method, f"{api.pods}/p/{below}")
    assert answer.code == 405
    assert answer.message.startswith(f"the local cluster does not support {what}: ")


async def test_server_side_apply_is_refused_with_advice(api: Client) -> None:
    answer = await api.call("PATCH", f"{api.pods}/p", b"{}", content_type="application/apply-patch+yaml")
    assert answer.message.startswith("the local cluster does not support server-side apply: use kubectl apply without ")


async def test_dry_runs_are_refused_rather_than_carried_out(api: Client) -> None:
    answer = await api.call("POST", api.pods, {"metadata": {"name": "p"}}, query={"dryRun": "All"})
    assert answer.message.startswith("the local cluster does not support dry runs: ")


async def test_a_list_that_a_strategic_patch_cannot_merge_is_refused_with_advice(api: Client) -> None:
    path = "/api/v1/namespaces/default/services"
    await api.create(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    answer = await api.call(
        "PATCH",
        f"{path}/s",
        {"spec": {"ports": [{"port": 81}]}},
        content_type="application/strategic-merge-patch+json",
    )
    assert answer.code == 400
    assert "use a JSON merge patch" in answer.message
