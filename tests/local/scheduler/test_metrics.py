"""What Prometheus reads: HAMi's names and labels, old names on demand, and gpuloom's own (scheduler 8.5)."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site, card, share_of
from prometheus_client.parser import text_string_to_metric_families

from gpuloom.kube import NODES, PODS, RESOURCE_QUOTAS
from gpuloom.kube.authority import CertificateAuthority
from gpuloom.scheduler.metrics.process import list_series
from gpuloom.wire.keys import NODE_CORDON

SETTINGS = dataclasses.replace(DEFAULTS, metrics_bind_address="127.0.0.1:0")
CARD = {"node": "n1", "device_uuid": "GPU-n1-0", "device_index": "0", "device_type": "NVIDIA A40", "zone": "vGPU"}
SHARE = {"namespace": "default", "node": "n1", "pod": "p", "container_index": "0", "device_uuid": "GPU-n1-0"}
MIB = 2**20

Found = dict[str, list[tuple[dict[str, str], float]]]


async def scrape(site: Site) -> Found:
    async with site.session.get(f"{site.process.urls.metrics}/metrics") as reply:
        assert reply.content_type == "text/plain"
        text = await reply.text()
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def start(site: Site, *, legacy: bool = False) -> None:
    await site.start(dataclasses.replace(SETTINGS, legacy_metrics=legacy))
    await site.process.wait_synced()
    await site.register("n1")


async def occupy(site: Site) -> None:
    pod = await site.submit(memory_mib=2500, cores=30)
    await site.choose(pod)
    await site.bind(pod)
    await site.wait_bound(pod)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("hami_gpu_memory_limit_bytes", CARD, 10000 * MIB),
        ("hami_gpu_core_limit_ratio", CARD, 100),
        ("hami_gpu_memory_allocated_bytes", CARD | {"device_cores": "100"}, 2500 * MIB),
        ("hami_gpu_shared_count", CARD, 1),
        ("hami_gpu_core_allocated_ratio", CARD, 30),
        ("hami_node_gpu_overview", CARD | {"device_cores": "100", "device_memory_limit": "10000"}, 2500 * MIB),
        ("hami_node_gpu_memory_allocated_ratio", CARD, 0.25),
        ("hami_vgpu_memory_allocated_bytes", SHARE | {"zone": "vGPU"}, 2500 * MIB),
        ("hami_vgpu_core_allocated_ratio", SHARE | {"zone": "vGPU"}, 30),
        ("gpuloom_in_charge", {}, 1),
        ("gpuloom_table_nodes", {}, 1),
    ],
)
async def test_values_and_labels(empty: Site, name: str, labels: dict[str, str], value: float) -> None:
    """B-38; scheduler 8.5 names."""
    await start(empty)
    await occupy(empty)
    assert (await scrape(empty))[name] == [(labels, value)]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("GPUDeviceMemoryLimit", {"nodeid", "deviceuuid", "deviceidx", "devicetype"}),
        ("GPUDeviceCoreLimit", {"nodeid", "deviceuuid", "deviceidx", "devicetype"}),
        ("GPUDeviceSharedNum", {"nodeid", "deviceuuid", "deviceidx", "devicetype"}),
        ("GPUDeviceCoreAllocated", {"nodeid", "deviceuuid", "deviceidx", "devicetype"}),
        ("GPUDeviceMemoryAllocated", {"nodeid", "deviceuuid", "deviceidx", "devicecores", "devicetype"}),
        (
            "nodeGPUOverview",
            {"nodeid", "deviceuuid", "deviceidx", "devicecores", "devicememorylimit", "devicetype"},
        ),
        ("nodeGPUMemoryPercentage", {"nodeid", "deviceuuid", "deviceidx"}),
        ("vGPUMemoryAllocated", {"podnamespace", "nodename", "podname", "containeridx", "deviceuuid"}),
        ("vGPUCoreAllocated", {"podnamespace", "nodename", "podname", "containeridx", "deviceuuid"}),
        ("QuotaUsed", {"quotanamespace", "quotaName", "limit"}),
    ],
)
async def test_old_names_on_demand(empty: Site, name: str, labels: set[str]) -> None:
    """D-29; scheduler 8.5 legacy names."""
    await start(empty, legacy=True)
    await occupy(empty)
    ((found, _), *_) = (await scrape(empty))[name]
    assert found.keys() == labels | {"zone"}


async def test_no_old_names_without_demand(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    assert not [name for name in await scrape(empty) if not name.startswith(("hami_", "gpuloom_", "process_"))]


async def test_quotas(empty: Site) -> None:
    """scheduler 8.5 quotas."""
    await start(empty)
    hard = {"limits.nvidia.com/gpumem": "4000"}
    await empty.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="default")
    await poll(lambda: bool(empty.process.state.cluster.quotas.limits("default")))
    await occupy(empty)
    found = await scrape(empty)
    labels = {"namespace": "default", "quota_name": "nvidia.com/gpumem", "zone": "vGPU"}
    cores = {"namespace": "default", "quota_name": "nvidia.com/gpucores", "limit": "0", "zone": "vGPU"}
    assert found["hami_resource_quota_used"] == [(labels | {"limit": "4000"}, 2500), (cores, 30)]
    assert found["hami_resource_quota_limit"] == [(labels, 4000)]


async def test_mig_instances_with_their_run_time_ids(empty: Site) -> None:
    """scheduler 8.5 MIG instances."""
    await start(empty)
    allocation = (
        '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-n1-0","profile":"1g.5gb","placement":{"start":6,"size":1},'
        '"migUUID":"MIG-1","gpuInstanceID":13,"computeInstanceID":0}]'
    )
    pod = await empty.submit()
    shares = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": "GPU-n1-0,NVIDIA,5120,14:;"}
    await empty.bind_by_another(pod, "n1", shares | {"hami.io/vgpu-mig-allocations": allocation})
    await empty.wait_bound(pod)
    assert (await scrape(empty))["hami_node_gpu_mig_instance_info"] == [
        (
            {
                "node": "n1",
                "device_uuid": "GPU-n1-0",
                "device_index": "0",
                "mig_uuid": "MIG-1",
                "profile": "1g.5gb",
                "gpu_instance_id": "13",
                "compute_instance_id": "0",
                "placement_start": "6",
                "placement_size": "1",
                "zone": "vGPU",
            },
            1,
        )
    ]


async def test_containers_are_told_apart(empty: Site) -> None:
    """B-37; scheduler 8.5 raw entries."""
    await start(empty)
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
    containers = [{"name": name, "image": "i", "resources": resources} for name in ("a", "b")]
    pod = await empty.submit(spec={"containers": containers})
    await empty.choose(pod)
    found = (await scrape(empty))["hami_vgpu_memory_allocated_bytes"]
    assert [labels["container_index"] for labels, _ in found] == ["0", "1"]


async def test_an_init_container_that_ended_holds_nothing_where_annotations_are_trusted(empty: Site) -> None:
    await empty.start(dataclasses.replace(SETTINGS, trust_annotations=True))
    await empty.process.wait_synced()
    await empty.register("n1")
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
    init, regular = ({"name": name, "image": "i", "resources": resources} for name in ("init", "main"))
    pod = await empty.submit(spec={"initContainers": [init], "containers": [regular]})
    await empty.choose(pod)
    await empty.bind(pod)
    await empty.wait_bound(pod)
    ended = [{"name": "init", "state": {"terminated": {"exitCode": 0}}}]
    shown = await empty.change_pod("p", {"status": {"initContainerStatuses": ended}}, subresource="status")
    await empty.wait_for_pod(shown)
    found = (await scrape(empty))["hami_vgpu_memory_allocated_bytes"]
    assert [labels["container_index"] for labels, _ in found] == ["1"]


async def test_many_cards_are_written_in_pages_under_one_heading(empty: Site) -> None:
    await start(empty)
    await empty.register("big", *(card("big", position) for position in range(250)))
    async with empty.session.get(f"{empty.process.urls.metrics}/metrics") as reply:
        text = await reply.text()
    assert text.count("# TYPE hami_gpu_shared_count gauge") == 1
    assert len((await scrape(empty))["hami_gpu_shared_count"]) == 251


async def test_calls_are_timed_by_verb(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    counts = {
        labels["verb"]: value for labels, value in (await scrape(empty))["gpuloom_request_duration_seconds_count"]
    }
    assert counts == {"filter": 1, "bind": 1}


async def test_watches_tell_their_age_and_their_new_lists(empty: Site) -> None:
    await start(empty)
    found = await scrape(empty)
    assert {labels["resource"] for labels, _ in found["gpuloom_watch_age_seconds"]} == {
        "pods",
        "nodes",
        "resourcequotas",
    }
    assert all(value == 0 for _, value in found["gpuloom_watch_relists_total"])


async def test_pods_without_mig_instances_are_looked_at_one_by_one(empty: Site) -> None:
    """There may be very many: a scrape makes pauses between them."""
    await start(empty)
    await occupy(empty)
    (instances,) = [one for one in list_series(empty.process.parts) if one.name == "hami_node_gpu_mig_instance_info"]
    assert list(instances.samples()) == [None]


async def test_changes_that_watches_told_of_are_counted(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    changes = {labels["resource"]: value for labels, value in (await scrape(empty))["gpuloom_watch_changes_total"]}
    # The pod is made and bound; nobody touches a quota.
    assert (changes["pods"] >= 2, changes["resourcequotas"]) == (True, 0)


async def test_reservations_are_counted_by_standing(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    await empty.choose(await empty.submit("q"))
    assert (await scrape(empty))["gpuloom_reservations"] == [
        ({"standing": "assumed"}, 1),
        ({"standing": "confirmed"}, 1),
    ]


async def test_all_pods_that_wait_are_counted_by_cause_with_the_age_of_the_oldest(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    assert await empty.choose(await empty.submit("large", memory_mib=20000)) is None
    tainted = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
    }
    await empty.submit("tainted")
    shown = await empty.change_pod("tainted", {"status": {"conditions": [tainted]}}, subresource="status")
    await empty.wait_for_pod(shown)
    for name in ("pending", "pending_oldest_seconds"):
        found = {one["cause"]: value for one, value in (await scrape(empty))[f"gpuloom_pods_{name}"]}
        assert {cause for cause, value in found.items() if value} <= {"cards", "node"}
        assert found.keys() == {"cards", "node", "gate", "scheduler", "unseen", "other"}
    places = [one for one, _ in (await scrape(empty))["gpuloom_namespace_pods_pending_oldest_seconds"]]
    assert [one for one in places if one["cause"] == "node"] == [{"namespace": "default", "cause": "node"}]
    counted = {one["cause"]: value for one, value in (await scrape(empty))["gpuloom_pods_pending"]}
    assert (counted["cards"], counted["node"], await value_of(empty, "gpuloom_pods_refused")) == (1, 1, 1)


def count_idle(site: Site) -> Any:
    """Count them as a scrape does, which is kept for others who ask in the next moment."""
    (idle,) = [one for one in list_series(site.process.parts) if one.name == "gpuloom_idle_cards"]
    return [sample for sample in idle.samples() if sample is not None]


async def test_cards_are_idle_that_nobody_is_on_and_that_pods_could_get(empty: Site) -> None:
    await start(empty)
    cards = [card("n2"), card("n2", 1, healthy=False), card("n2", 2)]
    await empty.register("n2", *cards, annotations={NODE_CORDON: cards[2].id})
    assert count_idle(empty) == [(("NVIDIA",), 2)]
    await occupy(empty)
    assert count_idle(empty) == [(("NVIDIA",), 1)]


async def test_nodes_with_unhealthy_cards_are_told_with_their_number(empty: Site) -> None:
    await start(empty)
    await empty.register("n2", card("n2"), card("n2", 1, healthy=False), card("n2", 2, healthy=False))
    assert (await scrape(empty))["gpuloom_unhealthy_cards"] == [({"node": "n2", "vendor": "NVIDIA"}, 2.0)]


@pytest.mark.parametrize(
    ("change", "subresource"),
    [
        ({"spec": {"unschedulable": True}}, ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status"),
    ],
    ids=["cordoned", "not ready"],
)
async def test_cards_of_nodes_that_take_no_pods_are_not_idle(empty: Site, change: Any, subresource: str) -> None:
    await start(empty)
    assert count_idle(empty) == [(("NVIDIA",), 1)]
    await empty.wait_for_node(await empty.client.patch(NODES, "n1", change, subresource=subresource))
    assert count_idle(empty) == [(("NVIDIA",), 0)]


async def test_build_info_has_no_zone(empty: Site) -> None:
    """scheduler 8.5 build info."""
    await start(empty)
    ((labels, value),) = (await scrape(empty))["hami_build_info"]
    assert set(labels) == {"version", "revision", "build_date", "go_version", "compiler", "platform"}
    assert value == 1


async def test_without_an_address_there_are_no_metrics(site: Site) -> None:
    assert site.process.urls.metrics == ""


async def value_of(site: Site, name: str) -> float:
    ((_, value),) = (await scrape(site))[name]
    return value


FOREIGN, UNMUTATED = "gpuloom_foreign_bindings_total", "gpuloom_pods_unmutated_total"


async def test_a_binding_of_another_scheduler_is_counted_once(empty: Site) -> None:
    """binding 5 another live decider."""
    await start(empty)
    pod = await empty.submit()
    await empty.bind_by_another(pod, "n1", share_of())
    await empty.wait_bound(pod)
    shown = await empty.change_pod("p", {"metadata": {"annotations": {"a": "b"}}})
    await empty.wait_for_pod(shown)
    assert await value_of(empty, FOREIGN) == 1


async def test_our_own_bindings_are_not_foreign(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    assert await value_of(empty, FOREIGN) == 0


async def test_what_was_bound_before_the_start_is_not_foreign(empty: Site) -> None:
    await start(empty)
    pod = await empty.submit()
    await empty.bind_by_another(pod, "n1", share_of())
    await empty.restart(SETTINGS)
    await empty.wait_bound(pod)
    assert await value_of(empty, FOREIGN) == 0


async def test_a_binding_without_our_annotations_is_not_foreign(empty: Site) -> None:
    await start(empty)
    pod = await empty.submit()
    await empty.bind_by_another(pod, "n1", {})
    await empty.wait_bound(pod)
    assert await value_of(empty, FOREIGN) == 0


@pytest.mark.parametrize(
    ("scheduler", "limits", "labels", "count"),
    [
        ("default-scheduler", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"}, {}, 1),
        ("hami-scheduler", {"nvidia.com/gpu": "1"}, {}, 1),
        ("hami-scheduler", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100", "nvidia.com/priority": "1"}, {}, 0),
        ("another-scheduler", {"nvidia.com/gpu": "1"}, {}, 0),
        ("default-scheduler", {"nvidia.com/gpu": "1"}, {"hami.io/webhook": "ignore"}, 0),
    ],
    ids=["not ours yet", "cores missing", "complete", "of another scheduler", "not to be asked about"],
)
async def test_pods_that_no_webhook_has_completed_are_counted(
    empty: Site, scheduler: str, limits: dict[str, str], labels: dict[str, str], count: int
) -> None:
    """binding 6 unmutated."""
    await start(empty)
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    manifest = {
        "metadata": {"name": "p", "labels": labels},
        "spec": {"schedulerName": scheduler, "containers": containers},
    }
    pod = await empty.client.create(PODS, manifest, namespace="default")
    await poll(lambda: pod.metadata.uid in empty.process.state.shown.pods)
    assert await value_of(empty, UNMUTATED) == count


GCU_MEMORY = "enflame.com/gcu-memory"


async def test_amounts_that_the_api_server_spells_its_own_way_are_complete(empty: Site) -> None:
    """binding 6 unmutated: a real API server writes 16000 as 16k."""
    await start(empty)
    resources = {"limits": {GCU_MEMORY: "16k"}, "requests": {GCU_MEMORY: "16k"}}
    spec = {"schedulerName": "hami-scheduler", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    pod = await empty.client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    await poll(lambda: pod.metadata.uid in empty.process.state.shown.pods)
    assert await value_of(empty, UNMUTATED) == 0


async def test_the_end_of_the_certificate_is_told(empty: Site, tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    files = {"cert_file": tmp_path / "tls.crt", "key_file": tmp_path / "tls.key"}
    for file, content in zip(files.values(), authority.issue(["127.0.0.1"]), strict=True):
        file.write_bytes(content)
    names = {field: str(file) for field, file in files.items()}
    await empty.start(dataclasses.replace(SETTINGS, **names))  # type: ignore[arg-type]
    end = authority.certificate.not_valid_after_utc
    assert await value_of(empty, "gpuloom_certificate_not_after_seconds") == end.timestamp()


async def test_a_watch_says_that_its_first_list_is_complete(empty: Site) -> None:
    await start(empty)
    assert [value for _, value in (await scrape(empty))["gpuloom_watch_synced"]] == [1, 1, 1]


async def test_a_node_whose_device_plugin_is_gone_is_named_until_it_offers_cards_again(empty: Site) -> None:
    await start(empty)
    assert not list(filter(None, empty.process.parts.nodes.silent()))
    await empty.offer("n1", 0)
    assert (await scrape(empty))["gpuloom_node_silent"] == [({"node": "n1", "vendor": "NVIDIA"}, 1)]
    await empty.offer("n1", 10)
    assert not list(filter(None, empty.process.parts.nodes.silent()))


async def test_a_lock_is_timed_while_it_is_held(empty: Site) -> None:
    await start(empty)
    await occupy(empty)
    ((labels, _),) = (await scrape(empty))["gpuloom_node_lock_held_seconds"]
    assert labels == {"node": "n1", "lock": "hami.io/mutex.lock"}
    await empty.unlock()
    await poll(lambda: empty.process.parts.locks.held() == [])
