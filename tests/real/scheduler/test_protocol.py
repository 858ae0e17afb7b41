"""The scheduler's writes against the real API server: what it accepts, merges, refuses (binding 1 to 4)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest
from local.scheduler.clock import ManualClock, poll
from local.scheduler.site import HANDSHAKE, LOCK, VGPU_NODE, Site

from gpuloom.kube import NODES, PODS, KubeClient, load_kubeconfig
from gpuloom.scheduler.clocks import Clocks
from gpuloom.wire.objects import Pod
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

WOKEN = "gpuloom.io/woken"


class RealTime(ManualClock):
    """The machine's clocks, where a test needs none of its own."""

    @property
    def clocks(self) -> Clocks:
        return Clocks()


@pytest.fixture
async def site(own_control_plane: ControlPlane) -> AsyncIterator[Site]:
    """A scheduler over a real API server, and one node with one card of 10,000 MiB."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(load_kubeconfig(own_control_plane.kubeconfig)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        site = Site(None, client, RealTime(), session)
        stack.push_async_callback(site.stack.aclose)
        await site.start()
        await site.process.wait_synced()
        await site.register("n1")
        yield site


async def show(site: Site, pod: Pod, condition: Callable[[Pod], bool]) -> Pod:
    """Wait until the scheduler's watch shows a pod as it should be."""
    uid = pod.metadata.uid
    await poll(lambda: uid in site.process.state.shown.pods and condition(site.process.state.shown.pods[uid]))
    return site.process.state.shown.pods[uid]


async def test_a_pod_gets_node_cards_and_label_and_its_lock_is_handed_on(site: Site) -> None:
    await poll(lambda: HANDSHAKE in site.process.state.shown.nodes["n1"].annotations)
    first, second = await site.submit("a"), await site.submit("b")
    for pod in (first, second):
        assert await site.choose(pod) == "n1"
    assert await site.bind(first) == ""
    await show(site, first, lambda pod: VGPU_NODE in pod.labels)
    bound = await site.pod("a")
    assert (bound.spec.node_name, bound.annotations[VGPU_NODE]) == ("n1", "n1")
    waiting = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    await site.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: None}}})
    assert await waiting == ""


async def test_a_pod_recreated_under_its_name_is_refused_by_uid(site: Site) -> None:
    old = await site.submit(memory_mib=9000)
    assert await site.choose(old) == "n1"
    await site.remove(old)
    new = await site.submit(memory_mib=9000)
    with pytest.raises(Exception, match="recondition failed"):
        await site.bind_by_another(old, "n1", {})
    assert await site.bind(old) == 'pod "p" not found: another pod has its name now'
    assert await site.choose(new) == "n1"
    assert await site.bind(new) == ""


async def test_a_refused_pod_is_woken_and_another_of_its_name_would_not_be(site: Site) -> None:
    occupant = await site.submit("occupant", memory_mib=9000)
    await site.choose(occupant)
    waiting = await site.submit(memory_mib=5000)
    assert await site.choose(waiting) is None
    await site.remove(occupant)
    await show(site, waiting, lambda pod: WOKEN in pod.annotations)
    with pytest.raises(Exception, match=r"metadata\.uid"):
        await site.client.patch(PODS, "p", {"metadata": {"uid": occupant.metadata.uid}}, namespace="default")


async def test_a_restart_counts_what_was_bound(site: Site) -> None:
    pod = await site.submit(memory_mib=6000)
    await site.choose(pod)
    assert await site.bind(pod) == ""
    await site.restart()
    assert await site.free_mib("n1") == 4000
