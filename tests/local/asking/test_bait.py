"""trust T-01: whoever gets the user's token is the scheduler of the installation, whatever others put in its way."""

from pathlib import Path

import pytest
from local.asking.conftest import Stage
from local.asking.listener import listen

from gpuloom.kube.resources import MUTATING_WEBHOOKS, SERVICES
from gpuloom.web.protocol import SERVICE_ANNOTATION

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("labels", [{"gpuloom.io/web": "true"}, {"gpuloom.io/installation": "gpuloom"}], ids=str)
async def test_a_tenants_service_gets_no_token(stage: Stage, labels: dict[str, str]) -> None:
    """A tenant makes a Service that looks like the scheduler's, in a namespace that sorts before."""
    server, client = stage.cluster.server, stage.cluster.client
    async with listen() as bait:
        server.proxy.add("services", "default", "bait:web", f"http://127.0.0.1:{bait.port}")
        body = {"metadata": {"name": "bait", "namespace": "default", "labels": labels}}
        await client.create(SERVICES, {**body, "spec": {"ports": [{"name": "web", "port": 443}]}}, namespace="default")
        try:
            said = await stage.gpuloom("pods", "-A", "-o", "name")
        finally:
            await client.delete(SERVICES, "bait", namespace="default")
    assert bait.headers == []
    assert (said.code, said.out, said.err) == (0, "pod/runs\n", "")


async def test_who_may_not_read_the_installation_is_told_the_flag(stage: Stage, tmp_path: Path) -> None:
    server = stage.cluster.server
    token = server.accounts.add("reader", lambda _, resource, __: resource != "mutatingwebhookconfigurations")
    server.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    said = await stage.gpuloom("pods", "-o", "name", kubeconfig=str(tmp_path / "kubeconfig"))
    assert (said.code, said.out) == (0, "pod/runs\n")
    (line,) = said.err.splitlines()
    assert "answered from the API server's objects" in line
    assert "--service NAMESPACE/NAME" in line
    flags = ("--service", "kube-system/gpuloom-web")
    said = await stage.gpuloom("pods", "-o", "name", *flags, kubeconfig=str(tmp_path / "kubeconfig"))
    assert (said.code, said.out, said.err) == (0, "pod/runs\n", "")


@pytest.mark.parametrize("service", ["", "kube-system", "../../nodes"])
async def test_an_installation_that_names_no_service_is_not_asked(stage: Stage, service: str) -> None:
    client = stage.cluster.client
    shown = {"metadata": {"annotations": {SERVICE_ANNOTATION: service}}}
    await client.patch(MUTATING_WEBHOOKS, "gpuloom-webhook", shown)
    try:
        said = await stage.gpuloom("pods", "-o", "name")
    finally:
        shown["metadata"]["annotations"][SERVICE_ANNOTATION] = "kube-system/gpuloom-web"
        await client.patch(MUTATING_WEBHOOKS, "gpuloom-webhook", shown)
    assert (said.code, said.out) == (0, "pod/runs\n")
    assert "gpuloom-webhook names no Service of the pages" in said.err
    assert "--service NAMESPACE/NAME" in said.err
