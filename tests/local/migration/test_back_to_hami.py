"""What gpuloom leaves behind is read by HAMi's rules: its pods carry the annotations that HAMi's scheduler writes."""

import dataclasses

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import ALLOCATED, DEFAULTS, PHASE, TO_ALLOCATE, VGPU_NODE, Site
from oracle.podcache import PodCache
from oracle.settings import Settings

from gpuloom.scheduler import SchedulerSettings

HAMI: SchedulerSettings = dataclasses.replace(DEFAULTS, trust_annotations=True, filter_write="inline")
"""HAMi's way of counting and writing."""

KEYS_OF_HAMI = {VGPU_NODE, "hami.io/vgpu-time", ALLOCATED, TO_ALLOCATE, PHASE, "hami.io/bind-time"}


@pytest.fixture
async def site(empty: Site) -> Site:
    """gpuloom in charge of a node with one card of 10,000 MiB."""
    await empty.start()
    await empty.process.wait_synced()
    await empty.register("n1")
    return empty


async def has_capacity(site: Site, memory_mib: int) -> bool:
    """Ask with a pod of its own, because HAMi's way writes on it."""
    pod = await site.submit(f"asks-{memory_mib}", memory_mib=memory_mib)
    found = await site.choose(pod)
    await site.remove(pod)
    return found is not None


async def bind(site: Site, name: str) -> None:
    pod = await site.submit(name)
    assert await site.choose(pod) == "n1"
    assert await site.bind(pod) == ""
    await site.wait_bound(pod)
    await site.unlock()


async def test_a_bound_pod_carries_every_annotation_that_hami_writes_and_its_label(site: Site) -> None:
    await bind(site, "p")
    bound = await site.pod("p")
    assert {key for key in bound.annotations if key.startswith("hami.io/")} == KEYS_OF_HAMI
    assert bound.annotations[ALLOCATED] == bound.annotations[TO_ALLOCATE] == "GPU-n1-0,NVIDIA,3000,0:;"
    uid = bound.metadata.uid
    await site.clock.run_until(lambda: VGPU_NODE in site.process.state.shown.pods[uid].labels)


async def test_hami_counts_what_gpuloom_gave_away(site: Site) -> None:
    await bind(site, "p")
    cache = PodCache(Settings(trust_annotations=True))
    cache.observe(await site.pod("p"), added=True)
    (counted,) = cache.pods.values()
    (share,) = (share for container in counted.devices for share in container)
    assert (counted.node, share.uuid, share.usedmem, share.usedcores) == ("n1", "GPU-n1-0", 3000, 0)


async def test_a_scheduler_of_hamis_ways_goes_on_from_there(site: Site) -> None:
    await bind(site, "p")
    before = await site.pod("p")
    await site.restart(HAMI)
    await poll(lambda: "n1" in site.process.state.shown.nodes)
    assert (await has_capacity(site, 7000), await has_capacity(site, 7001)) == (True, False)
    assert (await site.pod("p")).annotations == before.annotations
    await bind(site, "q")
    assert (await has_capacity(site, 4000), await has_capacity(site, 4001)) == (True, False)


async def test_a_pod_that_gpuloom_decided_and_did_not_bind_carries_nothing(site: Site) -> None:
    pod = await site.submit()
    assert await site.choose(pod) == "n1"
    assert not [key for key in (await site.pod("p")).annotations if key.startswith("hami.io/")]
    await site.restart(HAMI)
    await poll(lambda: "n1" in site.process.state.shown.nodes)
    assert await has_capacity(site, 10000)
