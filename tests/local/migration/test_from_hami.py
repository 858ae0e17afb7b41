"""gpuloom takes over a cluster as any version of HAMi left it: what runs there counts and is not touched."""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import (
    ALLOCATED,
    DEFAULTS,
    HANDSHAKE,
    LOCK,
    PHASE,
    REGISTER,
    TO_ALLOCATE,
    VGPU_NODE,
    Site,
    offer,
    open_site,
)
from local.scheduler.test_leadership import become_leader

from gpuloom.kube import LEASES, NODES, PODS
from gpuloom.local.manifests import pod_manifest
from gpuloom.scheduler import SchedulerSettings
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.wire.objects import Node, Pod

CARD = "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4"
REGISTERS = {
    "up to 2.4": f"{CARD},10,7680,100,NVIDIA-NVIDIA A40,0,true:",
    "2.5 to 2.7": f"{CARD},10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:",
    "2.8 and later": (
        f'[{{"id":"{CARD}","count":10,"devmem":7680,"devcore":100,"type":"NVIDIA A40","mode":"hami-core",'
        '"health":true,"devicepairscore":{}}]'
    ),
}
"""Cards of a node as HAMi's device plugins write them."""

HANDSHAKES = {
    "plugin up to 2.7": "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895",
    "scheduler of 2.4": "Requesting_2024.12.24 03:31:30",
    "scheduler since 2.5": "Requesting_2025-06-13 09:07:40",
    "after a cleaning of 2.4": "Deleted_2024.12.06 07:43:49",
}
SHARE = f"{CARD},NVIDIA,3000,30:"
PODS_OF_HAMI: dict[str, tuple[int, dict[str, str]]] = {
    "one container": (1, {ALLOCATED: f"{SHARE};", TO_ALLOCATE: ";"}),
    "consumed by 2.10": (1, {ALLOCATED: f"{SHARE};", TO_ALLOCATE: ";;"}),
    "the second of three containers": (3, {ALLOCATED: f";{SHARE};;", TO_ALLOCATE: ";;;"}),
    "2.4, a slot of commas": (2, {ALLOCATED: f"{SHARE};,,0,0:;", TO_ALLOCATE: ";"}),
    "2.5, with a label": (1, {ALLOCATED: f"{SHARE};", TO_ALLOCATE: ";"}),
}
"""Containers and device lists of pods that hold 3000 MiB and 30 per cent, as HAMi's versions leave them behind."""

A100 = "GPU-936619fc-f6a1-74a8-0bc6-ecf6b3269313"
GEOMETRIES = {
    "models": ["A100-SXM4-40GB"],
    "allowedGeometries": [
        [{"name": "1g.5gb", "core": 14, "memory": 5120, "count": 7}],
        [{"name": "3g.20gb", "core": 42, "memory": 20480, "count": 2}],
        [{"name": "7g.40gb", "core": 100, "memory": 40960, "count": 1}],
    ],
}
MIG_2_9 = f"{A100},7,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true,0,mig:"
HAMI = "hami-scheduler-6d9f8c7b5-x2x4k_5d1c"
LEASE = "hami-scheduler"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster of HAMi without gpuloom yet."""
    async with open_site(tmp_path) as opened:
        yield opened


async def leave_node(site: Site, register: str, **annotations: str) -> Node:
    found = {REGISTER: register, **annotations}
    return await site.client.create(NODES, {"metadata": {"name": "n1", "annotations": found}, "status": offer(10)})


async def leave_running_pod(site: Site, annotations: Mapping[str, str], containers: int = 1) -> Pod:
    """Make a pod that HAMi scheduled and whose containers run."""
    written = {
        VGPU_NODE: "n1",
        "hami.io/vgpu-time": "1732072495",
        "hami.io/bind-time": "1732072495",
        PHASE: "success",
        **annotations,
    }
    manifest = pod_manifest("old", memory_mib=3000, cores=30, annotations=written)
    manifest["metadata"]["labels"] = {VGPU_NODE: "n1"}
    others = ({**manifest["spec"]["containers"][0], "name": f"c{n}", "resources": {}} for n in range(1, containers))
    manifest["spec"] |= {"nodeName": "n1", "schedulerName": "hami-scheduler"}
    manifest["spec"]["containers"] += others
    pod = await site.client.create(PODS, manifest, namespace="default")
    return await site.change_pod(pod.name, {"status": {"phase": "Running"}}, subresource="status")


async def take_over(site: Site, settings: SchedulerSettings = DEFAULTS) -> None:
    await site.start(settings)
    await site.process.wait_synced()
    await poll(lambda: "n1" in site.process.state.shown.nodes)


async def work_for_a_while(site: Site) -> None:
    """Give every flow the time to do what it does on its own."""
    await site.clock.advance(120)
    await let_answers_arrive()


@pytest.mark.parametrize("register", REGISTERS.values(), ids=REGISTERS.keys())
async def test_cards_are_read_as_every_version_registers_them(site: Site, register: str) -> None:
    await leave_node(site, register)
    await take_over(site)
    assert await site.free_mib("n1") == 7680
    assert (await site.client.get(NODES, "n1")).annotations[REGISTER] == register


@pytest.mark.parametrize(("containers", "lists"), PODS_OF_HAMI.values(), ids=PODS_OF_HAMI.keys())
@pytest.mark.parametrize("register", REGISTERS.values(), ids=REGISTERS.keys())
async def test_what_running_pods_hold_counts_and_they_are_not_touched(
    site: Site, register: str, containers: int, lists: dict[str, str]
) -> None:
    await leave_node(site, register)
    before = await leave_running_pod(site, lists, containers)
    await take_over(site)
    assert await site.free_mib("n1") == 7680 - 3000
    await work_for_a_while(site)
    assert await site.pod("old") == before


@pytest.mark.parametrize("handshake", HANDSHAKES.values(), ids=HANDSHAKES.keys())
async def test_a_handshake_of_any_version_keeps_no_healthy_node_out(site: Site, handshake: str) -> None:
    await leave_node(site, REGISTERS["up to 2.4"], **{HANDSHAKE: handshake})
    await take_over(site)
    await work_for_a_while(site)
    assert await site.free_mib("n1") == 7680


@pytest.mark.parametrize("lock", ["2024-10-20T03:07:02Z", "2025-10-20T03:07:02Z,default,gone"])
async def test_a_lock_that_hami_left_behind_stops_nobody(site: Site, lock: str) -> None:
    await leave_node(site, REGISTERS["2.8 and later"], **{LOCK: lock})
    await take_over(site)
    pod = await site.submit()
    assert await site.choose(pod) == "n1"
    binding = site.start_bind(pod)
    assert await site.clock.run_until_done(binding) == ""


async def test_a_pod_that_hami_decided_and_did_not_bind_is_bound_to_its_cards(site: Site) -> None:
    await leave_node(site, REGISTERS["2.5 to 2.7"])
    share = f"{CARD},NVIDIA,2000,0:;"
    decided = {VGPU_NODE: "n1", "hami.io/vgpu-time": "1732072495", ALLOCATED: share, TO_ALLOCATE: share}
    manifest = pod_manifest("waits", memory_mib=2000, annotations=decided)
    manifest["spec"]["schedulerName"] = "hami-scheduler"
    pod = await site.client.create(PODS, manifest, namespace="default")
    await take_over(site)
    await poll(lambda: pod.metadata.uid in site.process.state.shown.pods)
    assert await site.bind(pod) == ""
    bound = await site.pod("waits")
    assert bound.spec.node_name == "n1"
    assert bound.annotations[ALLOCATED].rstrip(";") == share.rstrip(";")


async def test_instances_of_geometries_count_with_the_same_geometries(site: Site) -> None:
    await leave_node(site, MIG_2_9)
    instance = f"{A100}[0-1],NVIDIA,5120,14:;"
    before = await leave_running_pod(site, {ALLOCATED: instance, TO_ALLOCATE: ";"})
    names = {
        "resourceCountName": "nvidia.com/gpu",
        "resourceMemoryName": "nvidia.com/gpumem",
        "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
        "resourceCoreName": "nvidia.com/gpucores",
        "resourcePriorityName": "nvidia.com/priority",
        "defaultGPUNum": 1,
        "knownMigGeometries": [GEOMETRIES],
    }
    profiles = tuple(apply_device_config(load_shipped(), {"nvidia": names}, "device-config.yaml"))
    await take_over(site, dataclasses.replace(DEFAULTS, profiles=profiles))
    assert await site.free_mib("n1") == 5120
    await work_for_a_while(site)
    assert await site.pod("old") == before


async def test_while_hami_leads_gpuloom_writes_nothing_and_decides_once_the_lease_is_its_own(site: Site) -> None:
    node = await leave_node(site, REGISTERS["2.8 and later"])
    spec: dict[str, Any] = {"holderIdentity": HAMI, "leaseDurationSeconds": 15, "leaseTransitions": 0}
    await site.client.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec}, namespace="kube-system")
    elected = dataclasses.replace(
        DEFAULTS,
        leader_elect=True,
        leader_elect_resource_name=LEASE,
        leader_elect_resource_namespace="kube-system",
        host_name="gpuloom-scheduler-0",
    )
    await take_over(site, elected)
    pod = await site.submit()
    assert HAMI in (await site.filter(pod))["Error"]
    await work_for_a_while(site)
    assert await site.client.get(NODES, "n1") == node

    ours = {"holderIdentity": "gpuloom-scheduler-0_1", "leaseTransitions": 1}
    await site.client.patch(LEASES, LEASE, {"spec": ours}, namespace="kube-system")
    await become_leader(site)
    assert await site.choose(pod) == "n1"
