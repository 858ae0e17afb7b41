"""Whom ``gpuloom top`` asks what is really used, where the scheduler does not know, and how much it listens to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from local.asking.test_direct import describe

from gpuloom.cli.asking.usage import COMPONENT, MOST_METRICS_BYTES, read_uses
from gpuloom.cli.asking.utilization import CardUtilization
from gpuloom.client.installation import WebService
from gpuloom.kube import PODS, KubeClient, load_kubeconfig
from gpuloom.kube.resources import MUTATING_WEBHOOKS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.wire.monitors import PORT

OURS, TENANTS = "kube-system", "default"


@dataclass
class Cluster:
    """An API server, and who asks it."""

    server: LocalApiServer
    client: KubeClient

    @asynccontextmanager
    async def monitor(self, namespace: str, memory_mib: int, *, more: str = "") -> AsyncIterator[None]:
        """Run a pod with a monitor's label, which says that so much of GPU-a is in use."""
        text = f'hami_host_gpu_memory_used_bytes{{device_uuid="GPU-a"}} {memory_mib * 2**20}\n{more}'

        async def answer(_: web.BaseRequest) -> web.Response:
            return web.Response(text=text)

        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self.server.proxy.add("pods", namespace, f"monitor:{PORT}", url)
            spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
            body = {"metadata": {"name": "monitor", "labels": {COMPONENT: "hami-monitor"}}, "spec": spec}
            await self.client.create(PODS, body, namespace=namespace)
            yield
        finally:
            await runner.cleanup()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with LocalApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient(load_kubeconfig(tmp_path / "kubeconfig")) as client:
            yield Cluster(server, client)


async def test_a_tenants_pod_with_a_monitors_label_is_not_believed(cluster: Cluster) -> None:
    await cluster.client.create(MUTATING_WEBHOOKS, describe("ours", f"{OURS}/web", b""))
    async with cluster.monitor(OURS, 1024), cluster.monitor(TENANTS, 5):
        uses = await read_uses(cluster.client)
    assert (uses.by_uuid, uses.problem) == ({"GPU-a": CardUtilization(1024, None)}, "")


async def test_monitors_are_asked_where_the_named_service_is(cluster: Cluster) -> None:
    async with cluster.monitor(OURS, 1024), cluster.monitor(TENANTS, 5):
        uses = await read_uses(cluster.client, WebService(OURS, "web"))
    assert uses.by_uuid == {"GPU-a": CardUtilization(1024, None)}


async def test_where_no_installation_shows_itself_nobody_is_asked_and_the_flag_is_told(cluster: Cluster) -> None:
    async with cluster.monitor(OURS, 1024):
        uses = await read_uses(cluster.client)
    assert uses.by_uuid == {}
    assert uses.problem.startswith("no monitor found: no MutatingWebhookConfiguration is labelled")
    assert uses.problem.endswith("with --service NAMESPACE/NAME")


async def test_a_longer_answer_than_monitors_give_is_not_read(cluster: Cluster) -> None:
    async with cluster.monitor(OURS, 1024, more="#" * MOST_METRICS_BYTES):
        uses = await read_uses(cluster.client, WebService(OURS, "web"))
    assert uses.by_uuid == {}
    assert uses.problem.startswith("1 of 1 monitors cannot be reached: read monitor kube-system/monitor: ")
    assert uses.problem.endswith(f"the answer is larger than {MOST_METRICS_BYTES} bytes")
