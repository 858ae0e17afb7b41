"""Resource quotas over memory and cores of cards (scheduler 6.10), as the watch shows them."""

from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site, share_of
from local.scheduler.test_metrics import scrape

from gpuloom.kube import NODES, RESOURCE_QUOTAS
from gpuloom.local.vendornode import describe_machine
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.web.views.overview import list_quotas
from gpuloom.web.views.source import EVERYTHING, Source

MEMORY = "limits.nvidia.com/gpumem"
CHIPS = [
    {
        "commonWord": chip,
        "resourceCountName": f"iluvatar.ai/{chip}-vgpu",
        "resourceMemoryName": "iluvatar.ai/vMem",
        "resourceCoreName": "iluvatar.ai/vCore",
    }
    for chip in ("BI-V150", "MR-V100")
]


async def limit(site: Site, amount: int, name: str = "q", *, resource: str = MEMORY) -> None:
    body = {"metadata": {"name": name}, "spec": {"hard": {resource: str(amount)}}}
    await site.client.create(RESOURCE_QUOTAS, body, namespace="default")
    await poll(lambda: bool(site.process.state.cluster.quotas.limits("default")))


async def change(site: Site, memory_mib: int) -> None:
    body = {"spec": {"hard": {MEMORY: str(memory_mib)}}}
    await site.client.patch(RESOURCE_QUOTAS, "q", body, namespace="default")
    await poll(lambda: memory_mib in site.process.state.cluster.quotas.limits("default").values())


async def test_a_pod_beyond_its_namespaces_quota_is_refused(site: Site) -> None:
    pod = await site.submit(memory_mib=3000)
    await limit(site, 2000)
    assert (await site.filter(pod))["FailedAndUnresolvableNodes"] == {"n1": "1/1 ResourceQuotaNotFit"}


async def test_a_pod_that_another_scheduler_bound_beyond_its_quota_runs_on_and_is_counted(site: Site) -> None:
    """binding 2.2: who is bound is counted."""
    await limit(site, 2000)
    await site.bind_by_another(await site.submit("first", memory_mib=3000), "n1", share_of())
    await poll(lambda: len(site.process.state.cluster.ledger) == 1)
    pod = await site.submit(memory_mib=1)
    assert (await site.filter(pod))["FailedAndUnresolvableNodes"] == {"n1": "1/1 ResourceQuotaNotFit"}
    assert not (await site.pod("first")).is_terminating


async def test_a_refused_pod_is_woken_when_the_quota_is_raised(site: Site) -> None:
    """binding 4 quota raised."""
    pod = await site.submit(memory_mib=3000)
    await limit(site, 2000)
    assert await site.choose(pod) is None
    await change(site, 4000)
    await site.clock.run_until(
        lambda: "gpuloom.io/woken" in site.process.state.shown.pods[pod.metadata.uid].annotations, step_s=0.05
    )


async def test_a_quota_that_is_gone_limits_nothing(site: Site) -> None:
    pod = await site.submit(memory_mib=3000)
    await limit(site, 2000)
    await site.client.delete(RESOURCE_QUOTAS, "q", namespace="default")
    await poll(lambda: not site.process.state.cluster.quotas.limits("default"))
    assert await site.choose(pod) == "n1"


async def test_a_quota_deleted_while_the_watch_was_down_limits_nothing(site: Site) -> None:
    await limit(site, 2000)
    site.server.faults.cut_watches("resourcequotas")
    outage = site.fail("GET", r"/resourcequotas\?", status=503, times=1000)
    await site.client.delete(RESOURCE_QUOTAS, "q", namespace="default")
    site.server.faults.expire_history()
    site.server.faults.waiting.remove(outage)
    await poll(lambda: not site.process.state.cluster.quotas.limits("default"))


async def test_a_pod_filtered_again_counts_once_against_its_quota(site: Site) -> None:
    """B-44."""
    pod = await site.submit(memory_mib=3000)
    await limit(site, 5000)
    for _ in range(3):
        assert await site.choose(pod) == "n1"


async def test_a_pod_that_is_given_up_gives_back_its_part_of_the_quota(site: Site) -> None:
    """scheduler 4.6: removal gives back what was stored."""
    first = await site.submit("first", memory_mib=3000)
    second = await site.submit("second", memory_mib=3000)
    await limit(site, 5000)
    assert await site.choose(first) == "n1"
    await site.remove(first)
    assert await site.choose(second) == "n1"


@pytest.fixture
async def chips(empty: Site) -> Site:
    """Two nodes with a card each, of chips that are asked for memory by one name, and a quota of ten units of it."""
    profiles = tuple(apply_device_config(load_shipped(), {"iluvatars": CHIPS}, "device-config.yaml"))
    served = replace(DEFAULTS, profiles=profiles, enable_iluvatar=True, metrics_bind_address="127.0.0.1:0")
    await empty.start(served)
    await empty.process.wait_synced()
    for node, profile in zip(("n1", "n2"), empty.process.state.settings.catalog, strict=True):
        machine = describe_machine(profile, cards=1)
        offered = {name: str(amount) for name, amount in machine.capacity.items()}
        metadata = {"name": node, "annotations": dict(machine.annotations)}
        status = {"capacity": offered, "allocatable": offered}
        await empty.client.create(NODES, {"metadata": metadata, "status": status})
    await poll(lambda: len(empty.process.state.cluster.nodes) == len(CHIPS))
    await limit(empty, 10, resource="limits.iluvatar.ai/vMem")
    return empty


def chip_pod(memory: int, *chips: str) -> dict[str, Any]:
    """Return the spec of a pod that asks for a card of each chip."""
    asked = {f"iluvatar.ai/{chip}-vgpu": "1" for chip in chips}
    limits = {**asked, "iluvatar.ai/vMem": str(memory), "iluvatar.ai/vCore": "10"}
    return {"containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}]}


async def admits(site: Site, spec: dict[str, Any]) -> bool:
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    request = {"uid": "r", "namespace": "default", "object": pod}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return bool((await site.call("webhook", body))["response"]["allowed"])


async def hold(site: Site, name: str, memory: int, chip: str, node: str) -> None:
    """Let a pod get its card."""
    assert await site.choose(await site.submit(name, spec=chip_pod(memory, chip)), node) == node


async def test_a_quota_that_chips_share_is_granted_once(chips: Site) -> None:
    await hold(chips, "first", 10, "BI-V150", "n1")
    second = await chips.submit("second", spec=chip_pod(10, "MR-V100"))
    assert (await chips.filter(second, "n2"))["FailedAndUnresolvableNodes"] == {"n2": "1/1 ResourceQuotaNotFit"}


async def test_what_is_held_of_one_chip_counts_for_another_at_admission(chips: Site) -> None:
    await hold(chips, "first", 4, "BI-V150", "n1")
    assert await admits(chips, chip_pod(6, "MR-V100"))
    assert not await admits(chips, chip_pod(7, "MR-V100"))


async def test_a_pod_of_two_chips_that_share_a_quota_asks_for_both_at_admission(chips: Site) -> None:
    assert await admits(chips, chip_pod(5, "BI-V150", "MR-V100"))
    assert not await admits(chips, chip_pod(6, "BI-V150", "MR-V100"))


async def test_a_resource_that_chips_share_is_told_of_once(chips: Site) -> None:
    await hold(chips, "first", 4, "BI-V150", "n1")
    await hold(chips, "second", 6, "MR-V100", "n2")
    told = [(labels["quota_name"], value) for labels, value in (await scrape(chips))["hami_resource_quota_used"]]
    assert told == [("iluvatar.ai/vMem", 2560), ("iluvatar.ai/vCore", 20)]
    views = list_quotas(Source(chips.process.parts), EVERYTHING)
    assert [(one.resource, one.used, one.limit) for one in views] == [
        ("iluvatar.ai/vMem", 2560, 2560),
        ("iluvatar.ai/vCore", 20, None),
    ]
