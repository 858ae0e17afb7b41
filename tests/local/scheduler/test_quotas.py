"""Resource quotas over memory and cores of cards (scheduler 6.10), as the watch shows them."""

from local.scheduler.clock import poll
from local.scheduler.site import Site

from gpuloom.kube import RESOURCE_QUOTAS

MEMORY = "limits.nvidia.com/gpumem"


async def limit(site: Site, memory_mib: int, name: str = "q") -> None:
    body = {"metadata": {"name": name}, "spec": {"hard": {MEMORY: str(memory_mib)}}}
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


async def test_a_refused_pod_is_woken_when_the_quota_is_raised(site: Site) -> None:
    """binding 4 quota raised."""
    pod = await site.submit(memory_mib=3000)
    await limit(site, 2000)
    assert await site.choose(pod) is None
    await change(site, 4000)
    await site.clock.run_until(
        lambda: "gpuloom.io/woken" in site.process.state.pods[pod.metadata.uid].annotations, step_s=0.05
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
