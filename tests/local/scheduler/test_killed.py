"""A scheduler that is killed in the middle of a Bind, and the one that is started after it (binding 2.2 restart)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import LOCK, REGISTER, card, offer

from gpuloom.kube import NODES, PODS, KubeClient, load_kubeconfig
from gpuloom.local.apiserver import InjectedFault, LocalApiServer
from gpuloom.local.manifests import pod_manifest
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register
from harness.controlplane import find_free_ports
from harness.gpuloom import GPULOOM
from harness.processes import ChildProcess

FOREVER_S = 60.0


class Killable:
    """A scheduler as a process of its own over a local API server, with one node of one card of 10,000 MiB."""

    def __init__(self, server: LocalApiServer, client: KubeClient, session: aiohttp.ClientSession, directory: Path):
        self.server, self.client = server, client
        self._session = session
        self._directory = directory
        port, metrics_port = find_free_ports(2)
        self._address, self._metrics_address = f"127.0.0.1:{port}", f"127.0.0.1:{metrics_port}"
        self._process: ChildProcess | None = None

    async def start(self) -> None:
        command: list[str | Path] = [
            GPULOOM,
            "scheduler",
            f"--http_bind={self._address}",
            f"--metrics-bind-address={self._metrics_address}",
            f"--kubeconfig={self._directory / 'kubeconfig'}",
        ]
        self._process = ChildProcess("gpuloom scheduler", command, log=self._directory / "log")
        async with asyncio.timeout(60):
            while not await self._is_ready():  # noqa: ASYNC110 - another process becomes ready
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)

    async def restart(self) -> None:
        await self.kill()
        self.server.faults.clear()
        await self.start()

    async def submit(self, name: str, memory_mib: int) -> Pod:
        manifest = pod_manifest(name, memory_mib=memory_mib)
        manifest["spec"] |= {"schedulerName": "hami-scheduler"}
        return await self.client.create(PODS, manifest, namespace="default")

    async def choose(self, pod: Pod) -> str | None:
        reply = await self._call("filter", {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]})
        assert reply["Error"] == ""
        return reply["NodeNames"][0] if reply["NodeNames"] else None

    async def bind(self, pod: Pod) -> str:
        names = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.metadata.uid}
        return str((await self._call("bind", {**names, "Node": "n1"}))["Error"])

    async def lock(self) -> str | None:
        return (await self.client.get(NODES, "n1")).annotations.get(LOCK)

    async def node_of(self, pod: Pod) -> str:
        return (await self.client.get(PODS, pod.name, namespace=pod.namespace)).spec.node_name

    async def wait_for_waiter(self) -> None:
        """Wait until a Bind waits for its node, as the metrics tell."""
        async with asyncio.timeout(60):
            while "gpuloom_lock_waiters 1.0" not in await self._read_metrics():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    async def _read_metrics(self) -> str:
        async with self._session.get(f"http://{self._metrics_address}/metrics") as reply:
            return await reply.text()

    async def _call(self, verb: str, body: Mapping[str, Any]) -> Any:
        url, headers = f"http://{self._address}/{verb}", {"Content-Type": "application/json"}
        async with self._session.post(url, data=msgspec.json.encode(body), headers=headers) as reply:
            return await reply.json()

    async def _is_ready(self) -> bool:
        try:
            async with self._session.get(f"http://{self._address}/readyz") as reply:
                return reply.status == 200
        except aiohttp.ClientError:
            return False


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Killable]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(LocalApiServer(tls=False))
        server.write_kubeconfig(tmp_path / "kubeconfig")
        client = await stack.enter_async_context(KubeClient(load_kubeconfig(tmp_path / "kubeconfig")))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        annotations = {REGISTER: encode_register((card("n1"),))}
        await client.create(NODES, {"metadata": {"name": "n1", "annotations": annotations}, "status": offer(10)})
        site = Killable(server, client, session, tmp_path)
        stack.push_async_callback(site.kill)
        await site.start()
        yield site


async def kill_in_bind(site: Killable, pod: Pod, hangs: InjectedFault) -> None:
    """Let a Bind come to a request that hangs, kill the process there and start another."""
    site.server.faults.add(hangs)
    bind = asyncio.create_task(site.bind(pod))
    await poll(lambda: hangs not in site.server.faults.waiting)
    await site.kill()
    await asyncio.gather(bind, return_exceptions=True)
    await site.restart()


async def test_killed_between_filter_and_bind_it_holds_nothing_for_the_pod(site: Killable) -> None:
    assert await site.choose(await site.submit("decided", 9000)) == "n1"
    await site.restart()
    assert await site.choose(await site.submit("other", 9000)) == "n1"


async def test_killed_between_lock_and_binding_it_holds_nothing_for_the_pod(site: Killable) -> None:
    pod = await site.submit("locked", 9000)
    await site.choose(pod)
    await kill_in_bind(site, pod, InjectedFault(method="POST", path="/binding", delay_s=FOREVER_S))
    assert (await site.lock() or "").endswith(",default,locked")
    assert await site.node_of(pod) == ""
    assert await site.choose(await site.submit("other", 9000)) == "n1"


async def test_killed_between_binding_and_reply_it_counts_the_pod_and_says_that_it_is_bound(site: Killable) -> None:
    pod = await site.submit("bound", 9000)
    await site.choose(pod)
    site.server.faults.add(InjectedFault(method="POST", path="/binding", lose_answer=True))
    await kill_in_bind(site, pod, InjectedFault(method="GET", path="/pods/bound$", delay_s=FOREVER_S))
    assert await site.node_of(pod) == "n1"
    assert await site.choose(await site.submit("other", 2000)) is None
    assert await site.bind(pod) == ""


async def test_killed_while_it_reads_its_first_lists_it_has_written_nothing(site: Killable) -> None:
    await site.kill()
    before = (await site.client.get(NODES, "n1")).metadata.resource_version
    hangs = InjectedFault(method="GET", path=r"/pods\?", times=2, delay_s=FOREVER_S)
    site.server.faults.add(hangs)
    starting = asyncio.create_task(site.start())
    await poll(lambda: hangs.times < 2)
    await site.kill()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert (await site.client.get(NODES, "n1")).metadata.resource_version == before
    await site.restart()
    assert await site.choose(await site.submit("later", 9000)) == "n1"


SERVED = {"metadata": {"annotations": {"hami.io/bind-phase": "success", "hami.io/vgpu-devices-to-allocate": ";"}}}


async def run_plugin(site: Killable) -> None:
    """Let gpuloom's device plugin run on the node: then nobody locks it (binding 9)."""
    labels = {"app.kubernetes.io/component": "hami-device-plugin"}
    spec = {"nodeName": "n1", "containers": [{"name": "plugin", "image": "i"}]}
    body = {"metadata": {"name": "plugin", "labels": labels}, "spec": spec}
    plugin = await site.client.create(PODS, body, namespace="default")
    annotations = {"gpuloom.io/serves": f"NVIDIA;{plugin.metadata.uid}"}
    await site.client.patch(NODES, "n1", {"metadata": {"annotations": annotations}})


async def binds_nobody_before_it_is_served(site: Killable, pod: Pod) -> None:
    """Bind another pod: it is bound when this one is served, and not before."""
    other = await site.submit("other", 500)
    assert await site.choose(other) == "n1"
    bind = asyncio.create_task(site.bind(other))
    await site.wait_for_waiter()
    assert await site.node_of(other) == ""
    await site.client.patch(PODS, pod.name, SERVED, namespace="default")
    assert await bind == ""
    assert await site.lock() is None


async def test_killed_before_a_binding_without_lock_the_node_is_free(site: Killable) -> None:
    await run_plugin(site)
    pod = await site.submit("sent", 9000)
    await site.choose(pod)
    await kill_in_bind(site, pod, InjectedFault(method="POST", path="/binding", delay_s=FOREVER_S))
    assert await site.node_of(pod) == ""
    other = await site.submit("other", 9000)
    assert await site.choose(other) == "n1"
    assert await site.bind(other) == ""


async def test_killed_between_a_binding_without_lock_and_its_reply_it_binds_nobody_before_that_pod_is_served(
    site: Killable,
) -> None:
    await run_plugin(site)
    pod = await site.submit("bound", 9000)
    await site.choose(pod)
    site.server.faults.add(InjectedFault(method="POST", path="/binding", lose_answer=True))
    await kill_in_bind(site, pod, InjectedFault(method="GET", path="/pods/bound$", delay_s=FOREVER_S))
    assert await site.node_of(pod) == "n1"
    await binds_nobody_before_it_is_served(site, pod)


async def test_killed_after_a_bind_without_lock_it_binds_nobody_before_that_pod_is_served(site: Killable) -> None:
    await run_plugin(site)
    pod = await site.submit("bound", 9000)
    await site.choose(pod)
    assert await site.bind(pod) == ""
    await site.restart()
    await binds_nobody_before_it_is_served(site, pod)
