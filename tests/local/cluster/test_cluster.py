import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.demo.picture import TIMED_EVENTS, TimedEvent, draw_picture
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.waiting import Key, wait_until
from gpuloom.node.simulated import CardGroup, MachineDescription
from gpuloom.wire import keys
from gpuloom.wire.objects import KubeObject, Pod

TIMEOUT_S = 60.0
TWO_CARDS = MachineDescription(cards=(CardGroup(model="NVIDIA L4", memory_mib=20000, count=2),))
DESCRIPTION = ClusterDescription(nodes=(NodeDescription("n1", TWO_CARDS), NodeDescription("n2", TWO_CARDS)))


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gl-") as name:
        yield Path(name)


@pytest.fixture
async def cluster(directory: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(DESCRIPTION, directory, backoff_initial_s=0.1) as cluster:
        await cluster.wait_until_registered()
        yield cluster


def all_in_phase(phase: str, *names: str) -> Callable[[Mapping[Key, Pod]], bool]:
    def holds(pods: Mapping[Key, Pod]) -> bool:
        found = [pods.get(("default", name)) for name in names]
        return all(pod is not None and pod.status.phase == phase for pod in found)

    return holds


async def wait_running(cluster: LocalCluster, *names: str) -> Mapping[Key, Pod]:
    return await wait_until(cluster.client, PODS, all_in_phase("Running", *names), timeout_s=TIMEOUT_S)


async def wait_refused(cluster: LocalCluster, uid: str) -> list[str]:
    def holds(events: Mapping[Key, TimedEvent]) -> bool:
        return any(event.involved_object.uid == uid and event.reason == "FailedScheduling" for event in events.values())

    events = await wait_until(cluster.client, TIMED_EVENTS, holds, timeout_s=TIMEOUT_S)
    return [event.message for event in events.values() if event.involved_object.uid == uid]


async def test_a_pod_that_asks_for_a_share_runs(cluster: LocalCluster) -> None:
    await cluster.submit(pod_manifest("a", memory_mib=3000, cores=30))
    pods = await wait_running(cluster, "a")
    assert pods["default", "a"].spec.node_name in {"n1", "n2"}


async def test_a_running_pod_carries_the_record_of_its_share(cluster: LocalCluster) -> None:
    await cluster.submit(pod_manifest("a", memory_mib=3000, cores=30))
    pod = (await wait_running(cluster, "a"))["default", "a"]
    uuid = pod.annotations[keys.DEVICES_ALLOCATED].partition(",")[0]
    assert pod.annotations[keys.DEVICES_ALLOCATED] == f"{uuid},NVIDIA,3000,30:;"


async def test_the_container_is_told_its_limits(cluster: LocalCluster) -> None:
    await cluster.submit(pod_manifest("a", memory_mib=3000, cores=30))
    pod = (await wait_running(cluster, "a"))["default", "a"]
    environment = cluster.kubelets[pod.spec.node_name].environments["default", "a", "main"]
    uuid = pod.annotations[keys.DEVICES_ALLOCATED].partition(",")[0]
    expected = {
        "NVIDIA_VISIBLE_DEVICES": uuid,
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
    }
    assert {name: environment.get(name) for name in expected} == expected


async def test_the_lock_of_the_node_is_released_afterwards(cluster: LocalCluster) -> None:
    await cluster.submit(pod_manifest("a", memory_mib=3000))
    await wait_running(cluster, "a")

    def unlocked(nodes: Mapping[Key, KubeObject]) -> bool:
        return not any(keys.NODE_LOCK in node.annotations for node in nodes.values())

    nodes = await wait_until(cluster.client, NODES, unlocked, timeout_s=TIMEOUT_S)
    assert len(nodes) == 2


async def test_pods_that_come_all_at_once_never_over_allocate_a_card(cluster: LocalCluster) -> None:
    names = [f"p{number}" for number in range(10)]
    await asyncio.gather(*(cluster.submit(pod_manifest(name, memory_mib=8000, cores=40)) for name in names))

    def eight_run(pods: Mapping[Key, Pod]) -> bool:
        return sum(pod.status.phase == "Running" for pod in pods.values()) == 8

    pods = await wait_until(cluster.client, PODS, eight_run, timeout_s=TIMEOUT_S)
    nodes, _ = await cluster.client.list_all(NODES)
    picture = draw_picture(nodes, list(pods.values()), [])
    loads = [card.used.memory_mib for node in picture.nodes for card in node.cards]
    assert loads == [16000, 16000, 16000, 16000]


async def test_a_pod_that_fits_nowhere_says_why(cluster: LocalCluster) -> None:
    pod = await cluster.submit(pod_manifest("big", memory_mib=30000))
    assert "2 nodes CardInsufficientMemory(n1,n2)" in await wait_refused(cluster, pod.metadata.uid)


async def test_a_pod_that_waits_runs_when_another_one_goes(cluster: LocalCluster) -> None:
    fillers = ("f1", "f2")
    for name in fillers:
        await cluster.submit(pod_manifest(name, cards=2, memory_mib=20000))
    await wait_running(cluster, *fillers)
    pod = await cluster.submit(pod_manifest("late", memory_mib=20000))
    await wait_refused(cluster, pod.metadata.uid)
    await cluster.client.delete(PODS, "f1", namespace="default")
    assert ("default", "f1") not in await wait_running(cluster, "late")


async def test_a_pod_without_cards_runs_too(cluster: LocalCluster) -> None:
    await cluster.submit(pod_manifest("plain", cards=0))
    pods = await wait_running(cluster, "plain")
    assert keys.DEVICES_ALLOCATED not in pods["default", "plain"].annotations


async def test_nothing_is_left_running_or_open_afterwards(directory: Path) -> None:
    before = asyncio.all_tasks()
    async with LocalCluster(DESCRIPTION, directory) as cluster:
        await cluster.wait_until_registered()
    assert asyncio.all_tasks() - before == set()
