"""The monitor over a local API server, real sockets and real files."""

import asyncio
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from unit.node.monitor.regions import FORMS, Content, put, read_word

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.resources import EVENTS, NODES, PODS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.model.card import Card
from gpuloom.node.agent import NodeAgent
from gpuloom.node.monitor.cards import CardProcess
from gpuloom.node.monitor.errors import ListenError
from gpuloom.node.monitor.process import NodeMonitor
from gpuloom.node.monitor.settings import MonitorSettings
from gpuloom.node.monitor.simulated import SimulatedCardUse
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.keys import NODE_REGISTER
from gpuloom.wire.register import encode_register

NODE = "n1"
DEADLINE_S = 60.0


async def hurry(seconds: float) -> None:
    await asyncio.sleep(seconds / 250)


async def wait_until(check: Callable[[], object]) -> None:
    """Poll until `check` gives something true, or the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            result = check()
            if await result if asyncio.iscoroutine(result) else result:
                return
            await asyncio.sleep(0.02)


class Site:
    """One node, its simulated cards and a folder that stands for its disk."""

    def __init__(self, client: KubeClient, disk: Path) -> None:
        self.client = client
        self.disk = disk
        self.clock_s = 0.0
        self.accounts: Any = None
        self.machine = SimulatedMachine(NODE, load_machine("two-t4"))
        self.source = SimulatedCardUse(self.machine)
        self.settings = MonitorSettings(
            NODE,
            hook_path=disk / "vgpu",
            metrics_bind_address="127.0.0.1:0",
            mig_lock=disk / "mig.lock",
            pod_resources_socket=disk / "pod-resources/kubelet.sock",
            proc_dir=disk / "proc",
        )

    @property
    def cards(self) -> list[str]:
        return [gpu.uuid for gpu in self.machine.gpus]

    async def create_node(self) -> None:
        cards = [
            Card(uuid, index=place, count=10, memory_mib=15360, cores=100) for place, uuid in enumerate(self.cards)
        ]
        annotations = {NODE_REGISTER: encode_register(cards, "json")}
        await self.client.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "annotations": annotations}}
        )

    async def create_pod(self, name: str, allocated: str = "", *, priority: int | None = None) -> str:
        """A pod on the node, by UID."""
        limits = {} if priority is None else {"nvidia.com/priority": str(priority)}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {"hami.io/vgpu-devices-allocated": allocated},
            },
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
            },
        }
        return (await self.client.create(PODS, body, namespace="default")).metadata.uid

    @property
    def share(self) -> str:
        """An annotation that gives a share of the first card."""
        return f"{self.cards[0]},NVIDIA,1000,10:;"

    def run_process(self, pid: int, card: str, pod_uid: str) -> None:
        """Let a pod compute on a card."""
        folder = self.disk / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::/kubepods/pod{pod_uid}/x\n")
        self.source.run(card, CardProcess(pid, 100))

    @asynccontextmanager
    async def monitor(self):
        async with NodeMonitor(
            self.settings, self.client, self.source, sleep=hurry, monotonic_s=lambda: self.clock_s
        ) as monitor:
            task = asyncio.create_task(monitor.run())
            try:
                yield monitor
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def has_event(self, reason: str, uid: str) -> bool:
        events, _ = await self.client.list_all(EVENTS, namespace="default")
        return any(event.reason == reason and event.involved_object.uid == uid for event in events)


async def scrape(monitor: NodeMonitor) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{monitor.url}/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


@pytest.fixture
async def site(tmp_path):
    with tempfile.TemporaryDirectory(prefix="gl-") as disk:
        async with LocalApiServer() as server:
            server.write_kubeconfig(tmp_path / "kubeconfig")
            async with KubeClient(load_kubeconfig(tmp_path / "kubeconfig")) as client:
                site = Site(client, Path(disk))
                site.accounts = server.accounts
                (site.disk / "vgpu/containers").mkdir(parents=True)
                yield site


def put_region(site, uid, content=None):
    return put(site.settings.containers_dir, uid, "c", content or Content(uuids=(site.cards[0].encode(),)))


async def test_a_scrape_tells_what_a_container_uses(site):
    uid = await site.create_pod("p", site.share)
    put_region(site, uid)
    wanted = (
        f'hami_vgpu_memory_used_bytes{{container="c",device_uuid="{site.cards[0]}",namespace="default",pod="p",'
        'vdevice_index="0",zone="vGPU"} 10.0'
    )
    async with site.monitor() as monitor:

        async def is_told() -> bool:
            return wanted in await scrape(monitor)

        await wait_until(is_told)


async def test_old_names_can_be_left_out(site):
    site.settings = replace(site.settings, legacy_metrics=False)
    async with site.monitor() as monitor:
        assert "HostGPUMemoryUsage" not in await scrape(monitor)


async def test_a_container_that_waits_for_another_goes_on_when_the_monitor_ends(site):
    site.settings.mig_lock.touch()
    content = Content(uuids=(site.cards[0].encode(),), recent=-1)
    low = put_region(site, await site.create_pod("low", site.share), content)
    async with site.monitor() as monitor:

        async def is_known() -> bool:
            return 'pod="low"' in await scrape(monitor)

        await wait_until(is_known)
        assert read_word(low, FORMS["1.2"].recent) == -1
    assert read_word(low, FORMS["1.2"].recent) == 0


async def test_a_container_of_low_priority_waits_until_the_other_is_idle(site):
    high = put_region(site, await site.create_pod("high", site.share, priority=0), Content(recent=2))
    low = put_region(site, await site.create_pod("low", site.share), Content(recent=2))
    offset = FORMS["1.2"].recent
    seen = []

    def runs_again() -> bool:
        seen.append(read_word(low, offset))
        return -1 in seen and seen[-1] == 0 and read_word(high, offset) == 0

    async with site.monitor():
        await wait_until(runs_again)


async def test_the_directory_of_a_deleted_pod_goes(site):
    site.settings = replace(site.settings, resync_interval_s=0.0)
    uid = await site.create_pod("p", site.share)
    path = put_region(site, uid).parent
    os.utime(path, (1, 1))
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().round.containers)
        await site.client.delete(PODS, "p", namespace="default", grace_period_s=0)
        await wait_until(lambda: not path.exists())


async def wait_for_rounds(monitor: NodeMonitor) -> None:
    """Let the monitor go round a few times."""
    seen = [monitor.take_snapshot().round_duration_s]

    def went_on() -> bool:
        seen.append(monitor.take_snapshot().round_duration_s)
        return len(set(seen)) > 3

    await wait_until(went_on)


async def test_nothing_is_deleted_before_the_pods_are_known(site, tmp_path):
    site.settings = replace(site.settings, resync_interval_s=0.0)
    path = put_region(site, "u9").parent
    os.utime(path, (1, 1))
    unreachable = tmp_path / "unreachable"
    unreachable.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", (tmp_path / "kubeconfig").read_text()))
    site.client = KubeClient(load_kubeconfig(unreachable))
    async with site.client, site.monitor() as monitor:
        await wait_for_rounds(monitor)
        assert path.exists()


async def test_nothing_is_deleted_while_the_pods_are_not_heard_of(site):
    site.settings = replace(site.settings, resync_interval_s=0.0)
    put_region(site, await site.create_pod("p", site.share))
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().round.containers)
        site.clock_s = 121.0
        path = put_region(site, "u9").parent
        os.utime(path, (1, 1))
        await wait_for_rounds(monitor)
        assert path.exists()
        await site.create_pod("q")
        await wait_until(lambda: not path.exists())


async def test_the_driver_is_left_alone_while_a_card_is_divided(site):
    async with site.monitor():
        await wait_until(lambda: site.source.is_held)
        site.settings.mig_lock.touch()
        await wait_until(lambda: not site.source.is_held)
        site.settings.mig_lock.unlink()
        await wait_until(lambda: site.source.is_held)


async def test_priorities_rest_while_a_card_is_divided(site):
    site.settings.mig_lock.touch()
    path = put_region(site, await site.create_pod("p", site.share), Content(recent=2))
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().round.containers)
        assert read_word(path, FORMS["1.2"].recent) == 2


async def test_a_pod_on_a_wrong_card_is_an_event_of_the_pod_and_a_metric(site):
    await site.create_node()
    given, used = site.cards
    uid = await site.create_pod("p", f"{given},NVIDIA,1000,10:;")
    site.run_process(7, used, uid)
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().findings["CardNotGiven"] == 1)
        await wait_until(lambda: site.has_event("CardNotGiven", uid))


async def test_a_card_that_nobody_accounts_for_is_an_event_of_the_node(site):
    await site.create_node()
    node = await site.client.get(NODES, NODE)
    site.run_process(7, site.cards[0], "")
    async with site.monitor():
        await wait_until(lambda: site.has_event("CardUnaccounted", node.metadata.uid))


async def test_a_card_of_which_too_much_is_promised_is_an_event_of_the_node(site):
    await site.create_node()
    node = await site.client.get(NODES, NODE)
    for name in ("p", "q"):
        await site.create_pod(name, f"{site.cards[0]},NVIDIA,8000,10:;")
    async with site.monitor():
        await wait_until(lambda: site.has_event("CardOvercommitted", node.metadata.uid))


async def test_a_finding_that_is_over_leaves_the_metric(site):
    site.run_process(7, site.cards[0], "")
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().findings["CardUnaccounted"] == 1)
        site.source.run(site.cards[0])
        await wait_until(lambda: monitor.take_snapshot().findings["CardUnaccounted"] == 0)


async def test_a_missing_kubelet_and_node_stop_nothing_else(site):
    site.run_process(7, site.cards[0], "")
    async with site.monitor() as monitor:
        await wait_until(lambda: monitor.take_snapshot().findings["CardUnaccounted"] == 1)
        assert monitor.take_snapshot().sources == {"pods": True, "driver": True, "node": False, "kubelet": False}


@asynccontextmanager
async def serving_node(site):
    """A kubelet with the plugin of the site's cards."""
    plugins_dir = site.disk / "dp"
    plugins_dir.mkdir()
    library = site.disk / "usr/local/vgpu/libvgpu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    node_settings = NodeSettings(NODE, plugins_dir=plugins_dir, host_root=site.disk)
    async with (
        SimulatedKubelet(NODE, site.client, plugins_dir) as kubelet,
        NodeAgent(node_settings, site.client, site.machine, sleep=hurry),
    ):
        await wait_until(lambda: kubelet.allocatable.get("nvidia.com/gpu") == 20)
        yield kubelet


async def test_the_kubelets_count_is_held_against_the_promise(site):
    """binding 3 compared with PodResources: A pod that the kubelet serves, and whose promise is then taken away."""
    async with serving_node(site) as kubelet:
        uid = await serve_pod(site, f"{site.cards[0]},NVIDIA,1000,10:;")
        await wait_until(lambda: is_served(site, kubelet, uid))
        async with site.monitor() as monitor:
            await wait_until(lambda: monitor.take_snapshot().sources["kubelet"])
            assert monitor.take_snapshot().findings["DevicesDiffer"] == 0
            await site.client.patch(
                PODS, "p", {"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": ";"}}}, namespace="default"
            )
            await wait_until(lambda: monitor.take_snapshot().findings["DevicesDiffer"] == 1)


async def test_a_foreign_pod_that_holds_a_device_is_told_on_itself_and_on_its_node(site: Site) -> None:
    """trust T-03."""
    async with serving_node(site) as kubelet:
        uid = await serve_pod(site, f"{site.cards[0]},NVIDIA,1000,10:;")
        await wait_until(lambda: is_served(site, kubelet, uid))
        await site.client.patch(
            PODS, "p", {"metadata": {"annotations": {"hami.io/vgpu-node": None}}}, namespace="default"
        )
        node = await site.client.get(NODES, NODE)
        async with site.monitor() as monitor:
            await wait_until(lambda: monitor.take_snapshot().findings["ForeignPod"] == 1)
            await wait_until(lambda: site.has_event("ForeignPod", uid))
            await wait_until(lambda: site.has_event("ForeignPod", node.metadata.uid))


async def is_served(site: Site, kubelet: SimulatedKubelet, uid: str) -> bool:
    """Whether the kubelet gave the pod its devices and the plugin is done with it."""
    pod = await site.client.get(PODS, "p", namespace="default")
    return bool(kubelet.held_by(uid)) and pod.annotations.get("hami.io/bind-phase") == "success"


async def serve_pod(site: Site, allocated: str) -> str:
    """What the scheduler does for a pod, by UID."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }
    pod = await site.client.create(PODS, body, namespace="default")
    lock = {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p"}
    await site.client.patch(NODES, NODE, {"metadata": {"annotations": lock}})
    await site.client.bind(
        namespace="default",
        name="p",
        uid=pod.metadata.uid,
        node=NODE,
        annotations={
            "hami.io/vgpu-node": NODE,
            "hami.io/vgpu-devices-to-allocate": allocated,
            "hami.io/vgpu-devices-allocated": allocated,
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1767225600",
        },
        labels={},
    )
    return pod.metadata.uid


async def test_an_address_in_use_names_the_flag(site):
    async with site.monitor() as monitor:
        site.settings = replace(site.settings, metrics_bind_address=monitor.url.removeprefix("http://"))
        with pytest.raises(ListenError, match="--metrics-bind-address"):
            async with site.monitor():
                pass


@pytest.mark.parametrize("address", ["9394", "host:", ":99999", ""])
def test_an_address_that_is_none_names_the_flag(site, address):
    with pytest.raises(ListenError, match="--metrics-bind-address"):
        NodeMonitor(replace(site.settings, metrics_bind_address=address), site.client, site.source)


async def ask(site, path, token=""):
    """Return status and text of the monitor's answer, whoever signed its certificate."""
    site.settings = replace(site.settings, metrics_auth=True)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        site.monitor() as monitor,
        aiohttp.ClientSession() as session,
        session.get(f"{monitor.url}{path}", headers=headers, ssl=False) as reply,
    ):
        return reply.status, await reply.text()


async def test_metrics_are_for_those_whose_token_may_get_them(site):
    """T-10."""
    reader = site.accounts.add("reader", lambda verb, what, _: (verb, what) == ("get", "/metrics"))
    tenant = site.accounts.add("tenant", lambda _verb, what, _: what == "pods")
    found = [(await ask(site, "/metrics", token))[0] for token in ("", "wrong", tenant, reader)]
    assert found == [401, 401, 403, 200]


async def test_what_is_said_of_cards_alone_is_for_everybody_and_names_no_pod(site):
    status, text = await ask(site, "/metrics/cards")
    assert status == 200
    names = {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names <= {"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio"}


async def test_idle_connections_make_room_for_who_asks(site):
    """T-09."""
    async with site.monitor() as monitor:
        host, port = monitor.url.rpartition("//")[2].split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(80)]
        assert "hami" in await scrape(monitor)
        async with asyncio.timeout(DEADLINE_S):
            assert await idle[0][0].read() == b""
        for _, writer in idle:
            writer.close()
