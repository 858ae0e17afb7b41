"""Nodes whose device plugin is gpuloom's do without the lock: the phase of the bound pod is the lock (binding 9)."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, LOCK, PHASE, TO_ALLOCATE, VGPU_NODE, Site, share_of

from gpuloom.kube import EVENTS, NODES, PODS
from gpuloom.scheduler import SchedulerSettings
from gpuloom.wire.objects import Pod

SERVES = "gpuloom.io/serves"
COMPONENT = {"app.kubernetes.io/component": "hami-device-plugin"}
ALWAYS = replace(DEFAULTS, node_lock="always")


async def run_plugin(
    site: Site, node: str = "n1", *, labels: Mapping[str, str] = COMPONENT, on: str = "", vendors: str = "NVIDIA"
) -> Pod:
    """Let gpuloom's plugin run on a node and say so; ``on``: its pod runs elsewhere."""
    manifest = {
        "metadata": {"name": f"plugin-{node}", "labels": dict(labels)},
        "spec": {"nodeName": on or node, "containers": [{"name": "p", "image": "i"}]},
    }
    pod = await site.client.create(PODS, manifest, namespace="default")
    await site.annotate(node, {SERVES: f"{vendors};{pod.metadata.uid}"})
    if labels == COMPONENT:
        await poll(lambda: pod.metadata.uid in site.process.state.shown.plugins.uids())
    return pod


async def serve(site: Site, pod: Pod) -> None:
    """What gpuloom's plugin writes: one patch of the pod."""
    await site.change_pod(pod.name, {"metadata": {"annotations": {TO_ALLOCATE: ";", PHASE: "success"}}})


async def decide(site: Site, name: str, **request: Any) -> Pod:
    pod = await site.submit(name, **({"memory_mib": 100} | request))
    assert await site.choose(pod) == "n1"
    return pod


async def bind_next_to(site: Site, first: Pod) -> "tuple[Pod, asyncio.Task[str]]":
    """Bind the first pod, and let a second one wait for it."""
    assert await site.bind(first) == ""
    second = await decide(site, "second")
    bind = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    return second, bind


async def is_bound(site: Site, pod: Pod) -> bool:
    return bool((await site.pod(pod.name)).spec.node_name)


@pytest.fixture
async def first(site: Site) -> Pod:
    """A pod that was decided for a node with gpuloom's plugin."""
    await run_plugin(site)
    return await decide(site, "first")


async def test_a_bind_writes_no_node(site: Site, first: Pod) -> None:
    before = (await site.client.get(NODES, "n1")).metadata.resource_version
    assert await site.bind(first) == ""
    assert (await site.client.get(NODES, "n1")).metadata.resource_version == before
    assert (await site.pod("first")).annotations[PHASE] == "allocating"


async def test_the_next_pod_is_bound_when_the_last_one_is_served_and_not_before(site: Site, first: Pod) -> None:
    second, bind = await bind_next_to(site, first)
    await site.wait_bound(first)
    assert not await is_bound(site, second)
    await serve(site, first)
    assert await bind == ""
    assert await site.lock() is None


@pytest.mark.parametrize(
    "end",
    [
        {"status": {"phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}},
        {"status": {"startTime": "2026-01-01T00:00:00Z"}},
    ],
    ids=["refused", "taken in"],
)
async def test_the_kubelets_answer_frees_the_node(site: Site, first: Pod, end: Any) -> None:
    _, bind = await bind_next_to(site, first)
    await site.change_pod("first", end, subresource="status")
    assert await bind == ""


async def test_a_failure_that_the_plugin_tells_frees_the_node(site: Site, first: Pod) -> None:
    _, bind = await bind_next_to(site, first)
    await site.change_pod("first", {"metadata": {"annotations": {PHASE: "failed"}}})
    assert await bind == ""


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "over by another word than its kubelet's"])
async def test_a_pod_that_is_gone_unserved_keeps_its_node_for_two_seconds(
    site: Site, first: Pod, *, is_deleted: bool
) -> None:
    _, bind = await bind_next_to(site, first)
    await site.wait_bound(first)
    began_s = site.clock.elapsed_s
    if is_deleted:
        await site.remove(first)
    else:
        await site.change_pod("first", {"status": {"phase": "Succeeded"}}, subresource="status")
        await poll(lambda: first.metadata.uid not in site.process.state.shown.pods)
    assert not bind.done()
    assert await site.clock.run_until_done(bind, step_s=0.1) == ""
    assert 2 <= site.clock.elapsed_s - began_s < 5


async def test_time_frees_nothing_and_is_told(site: Site, first: Pod) -> None:
    _, bind = await bind_next_to(site, first)
    await site.wait_bound(first)
    assert "timed out after 28s waiting for node n1" in await site.clock.run_until_done(bind)
    await site.clock.run_until(
        lambda: bool(site.process.state.binds.unserved.overdue(300, site.clock.clocks.monotonic()))
    )
    again = site.start_bind(await site.pod("second"))
    assert "timed out after 28s" in await site.clock.run_until_done(again)
    event = await site.wait_event("DevicePluginSilent", "first")
    assert "node n1 has not started this pod for more than 5m" in event.message
    assert len([one for one in await list_events(site) if one.reason == "DevicePluginSilent"]) == 1


async def list_events(site: Site) -> Any:
    found, _ = await site.client.list_all(EVENTS, namespace="default")
    return found


async def test_a_definite_failure_frees_the_node_and_writes_no_node(site: Site, first: Pod) -> None:
    before = (await site.client.get(NODES, "n1")).metadata.resource_version
    site.fail("POST", "/pods/first/binding", status=403, reason="Forbidden")
    assert await site.bind(first) != ""
    assert await site.bind(await decide(site, "second")) == ""
    assert (await site.client.get(NODES, "n1")).metadata.resource_version == before


async def test_an_unknown_outcome_keeps_the_node_busy_until_it_is_known(site: Site, first: Pod) -> None:
    answer = site.fail("GET", "/pods/first$", status=500, times=3)
    site.fail("POST", "/pods/first/binding", status=500)
    bind = site.start_bind(first)
    second = await decide(site, "second")
    next_bind = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    assert not next_bind.done()
    # The next one waits for 28 s, and real answers take a while.
    assert await site.clock.run_until_done(bind, step_s=0.1) != ""
    assert site.has_happened(answer)
    assert await site.clock.run_until_done(next_bind) == ""


async def test_a_new_leader_learns_from_its_lists_which_nodes_are_busy(site: Site, first: Pod) -> None:
    assert await site.bind(first) == ""
    await site.restart()
    second = await decide(site, "second")
    bind = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    assert not await is_bound(site, second)
    await serve(site, first)
    assert await bind == ""


@pytest.mark.parametrize(
    "plugin",
    [{"labels": {}}, {"on": "n2"}, {"vendors": "DCU"}],
    ids=["unknown pod", "elsewhere", "other vendor"],
)
async def test_a_node_whose_plugin_is_not_seen_there_is_locked(site: Site, plugin: dict[str, Any]) -> None:
    await run_plugin(site, **plugin)
    pod = await decide(site, "first")
    assert await site.bind(pod) == ""
    assert (await site.lock() or "").endswith(",default,first")


async def test_a_plugin_that_is_gone_or_going_counts_no_more(site: Site) -> None:
    """A roll-back to HAMi's plugin leaves the annotation behind."""
    plugin = await run_plugin(site)
    await site.client.delete(PODS, plugin.name, namespace="default", grace_period_s=0)
    await poll(lambda: plugin.metadata.uid not in site.process.state.shown.plugins.uids())
    pod = await decide(site, "first")
    assert await site.bind(pod) == ""
    assert (await site.lock() or "").endswith(",default,first")


async def test_a_roll_back_between_a_bind_and_its_allocate_binds_nobody_else_before(site: Site, first: Pod) -> None:
    """HAMi's plugin serves the pod that was bound without a lock; the next one is bound with it, and after it."""
    second, bind = await bind_next_to(site, first)
    await site.client.delete(PODS, "plugin-n1", namespace="default", grace_period_s=0)
    await poll(lambda: not site.process.state.shown.plugins.uids())
    assert not await is_bound(site, second)
    await serve(site, first)
    assert await bind == ""
    assert (await site.lock() or "").endswith(",default,second")


async def test_always_takes_the_lock_and_waits_for_pods_that_were_bound_without(site: Site, first: Pod) -> None:
    assert await site.bind(first) == ""
    await site.restart(ALWAYS)
    second = await decide(site, "second")
    bind = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    assert await site.lock() is None
    await serve(site, first)
    assert await bind == ""
    assert (await site.lock() or "").endswith(",default,second")


async def test_a_lock_that_is_there_is_honoured(site: Site, first: Pod) -> None:
    """HAMi's scheduler may still decide, or a person holds the node."""
    owner = await site.submit("owner", memory_mib=100)
    await site.bind_by_another(owner, "n1", share_of("n1", 100))
    await site.annotate("n1", {LOCK: "2026-11-21T12:00:00Z,default,owner"})
    bind = site.start_bind(first)
    await poll(lambda: site.process.locks.waiting == 1)
    await serve(site, owner)
    await site.wait_for_pod(await site.pod("owner"))
    assert not bind.done()
    await site.unlock()
    assert await bind == ""
    assert await site.lock() is None


async def test_a_lock_whose_owner_is_over_is_taken_over(site: Site, first: Pod) -> None:
    await site.annotate("n1", {LOCK: "2026-11-21T12:00:00Z,default,nobody"})
    bind = site.start_bind(first)
    assert await site.clock.run_until_done(bind) == ""
    assert (await site.lock() or "").endswith(",default,first")


async def test_a_pod_of_two_vendors_keeps_its_node_until_both_plugins_are_done(site: Site) -> None:
    await run_plugin(site)
    pod = await site.submit("first", memory_mib=100)
    shares = share_of("n1", 100) | {
        "hami.io/dcu-devices-to-allocate": "DCU-0,DCU,0,0:;",
        "hami.io/dcu-devices-allocated": "DCU-0,DCU,0,0:;",
    }
    await site.bind_by_another(pod, "n1", shares | {PHASE: "success", TO_ALLOCATE: ";"})
    await site.wait_bound(pod)
    second = await decide(site, "second")
    bind = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    assert not await is_bound(site, second)
    await site.change_pod("first", {"metadata": {"annotations": {"hami.io/dcu-devices-to-allocate": ";"}}})
    assert await bind == ""


async def test_of_ten_pods_for_one_node_never_two_are_unserved(site: Site) -> None:
    await run_plugin(site)
    pods = [await decide(site, f"p{number}") for number in range(10)]
    binds = [site.start_bind(pod) for pod in pods]
    served: set[str] = set()
    while len(served) < len(pods):
        waiting = [pod for pod in await list_bound(site) if pod.annotations.get(PHASE) == "allocating"]
        assert len(waiting) <= 1
        for pod in waiting:
            served.add(pod.name)
            await serve(site, pod)
        await asyncio.sleep(0)
    assert set(await asyncio.gather(*binds)) == {""}


async def list_bound(site: Site) -> list[Pod]:
    found, _ = await site.client.list_all(PODS, namespace="default")
    return [pod for pod in found if pod.annotations.get(VGPU_NODE) == "n1" and pod.spec.node_name]


async def test_a_pod_that_another_bound_and_that_was_served_while_its_bind_waited_keeps_no_node_busy(
    site: Site, first: Pod
) -> None:
    second, bind = await bind_next_to(site, first)
    await site.change_pod("second", {"metadata": {"labels": {VGPU_NODE: "n1"}}})
    await site.bind_by_another(second, "n1", share_of("n1", 100))
    await serve(site, second)
    await site.wait_for_pod(await site.pod("second"))
    await serve(site, first)
    assert await bind == ""
    assert await site.clock.run_until_done(site.start_bind(await decide(site, "third"))) == ""


async def test_a_pod_that_never_asked_gpuloom_keeps_no_node_busy(site: Site, first: Pod) -> None:
    """A tenant may bind nothing, but name a node."""
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    foreign = await site.client.create(PODS, {"metadata": {"name": "foreign"}, "spec": spec}, namespace="default")
    await poll(lambda: foreign.metadata.uid in site.process.state.shown.pods)
    assert await site.bind(first) == ""


def test_the_default_is_to_do_without_where_possible() -> None:
    assert SchedulerSettings().node_lock == "auto"
