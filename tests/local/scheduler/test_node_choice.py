"""Where kube-scheduler chooses the node: all that fit are named and scored, the reservation follows (binding 10)."""

import asyncio
import dataclasses
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import ALLOCATED, DEFAULTS, LOCK, Site, share_of
from local.scheduler.test_leadership import ELECTED, become_leader, change_lease, make_lease
from local.scheduler.test_quotas import limit

from gpuloom.scheduler import SchedulerSettings
from gpuloom.scheduler.settings import SettingsError
from gpuloom.wire.objects import Pod

THREE = ("n1", "n2", "n3")
OTHER_LOCK = "2026-11-21T12:00:00Z,default,other"
CHOSEN_BY_SCHEDULER = dataclasses.replace(DEFAULTS, node_choice="scheduler")


@pytest.fixture
async def site(empty: Site) -> Site:
    """Three nodes with a card of 10,000 MiB each; kube-scheduler chooses."""
    await empty.start(CHOSEN_BY_SCHEDULER)
    await empty.process.wait_synced()
    for name in THREE:
        await empty.register(name)
    return empty


async def offer(site: Site, pod: Pod) -> list[str]:
    reply = await site.filter(pod, *THREE)
    assert reply["Error"] == ""
    return reply["NodeNames"] or []


async def prioritize(site: Site, pod: Pod, *nodes: str) -> dict[str, int]:
    """Ask for scores as kube-scheduler does."""
    reply = await site.call("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": nodes or THREE})
    assert all(one.keys() == {"Host", "Score"} for one in reply)
    return {one["Host"]: one["Score"] for one in reply}


def holds(site: Site, pod: Pod) -> str | None:
    held = site.process.state.cluster.ledger.find(pod.metadata.uid)
    return held.node if held is not None else None


async def filtered(site: Site, name: str = "p", **request: Any) -> Pod:
    pod = await site.submit(name, **request)
    assert await offer(site, pod)
    return pod


async def test_all_nodes_that_fit_are_named_in_the_order_of_the_call(site: Site) -> None:
    await site.bind_by_another(await site.submit("full"), "n2", share_of("n2", 9000))
    await poll(lambda: len(site.process.state.cluster.ledger) == 1)
    pod = await site.submit()
    assert (await site.filter(pod, "n3", "n2", "n1"))["NodeNames"] == ["n3", "n1"]


async def test_a_pod_that_fits_nowhere_is_refused_by_all(site: Site) -> None:
    reply = await site.filter(await site.submit(memory_mib=20000), *THREE)
    assert (reply["NodeNames"], reply["FailedAndUnresolvableNodes"]) == (
        None,
        dict.fromkeys(THREE, "1/1 CardInsufficientMemory"),
    )


async def test_a_pod_of_several_containers_is_offered_only_nodes_that_take_all_of_them(site: Site) -> None:
    await site.bind_by_another(await site.submit("full"), "n1", share_of("n1", 5000))
    await poll(lambda: len(site.process.state.cluster.ledger) == 1)
    limits = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}
    containers = [{"name": name, "image": "i", "resources": limits} for name in ("a", "b")]
    assert await offer(site, await site.submit(spec={"containers": containers})) == ["n2", "n3"]


async def test_the_node_that_is_held_alone_has_the_highest_score(site: Site) -> None:
    await site.bind_by_another(await site.submit("one"), "n1", share_of("n1", 5000))
    await site.bind_by_another(await site.submit("two"), "n2", share_of("n2", 5000))
    await poll(lambda: len(site.process.state.cluster.ledger) == 2)
    pod = await filtered(site)
    assert holds(site, pod) == "n1"
    assert await prioritize(site, pod) == {"n1": 10, "n2": 9, "n3": 0}


async def test_scores_are_asked_for_the_nodes_that_are_left(site: Site) -> None:
    pod = await filtered(site)
    assert await prioritize(site, pod, "n2", "unknown") == {"n2": 9, "unknown": 0}


async def test_a_pod_that_was_not_filtered_has_no_scores(site: Site) -> None:
    assert await prioritize(site, await site.submit()) == dict.fromkeys(THREE, 0)


async def test_a_call_for_scores_that_cannot_be_read_is_a_bad_request(site: Site) -> None:
    async with site.session.post(f"{site.process.url}/prioritize", data=b"{") as reply:
        assert reply.status == 400


async def test_where_the_extender_chooses_nobody_is_told_scores(site: Site) -> None:
    await site.restart()
    async with site.session.post(f"{site.process.url}/prioritize", data=b"{}") as reply:
        assert reply.status == 404


async def test_a_burst_does_not_herd_to_one_node(site: Site) -> None:
    """Three pods that fill a card each are filtered before the first of them is bound."""
    pods = [await filtered(site, f"p{number}", memory_mib=9000) for number in range(3)]
    assert {holds(site, pod) for pod in pods} == set(THREE)
    best = [max(scores, key=lambda name: scores[name]) for scores in [await prioritize(site, pod) for pod in pods]]
    assert set(best) == set(THREE)
    assert await asyncio.gather(*(site.bind(pod, node) for pod, node in zip(pods, best, strict=True))) == ["", "", ""]


async def test_a_bind_elsewhere_takes_cards_there_and_gives_back_the_others(site: Site) -> None:
    pod = await filtered(site, memory_mib=6000)
    assert holds(site, pod) == "n1"
    assert await site.bind(pod, "n3") == ""
    bound = await site.pod()
    assert (bound.spec.node_name, bound.annotations[ALLOCATED]) == ("n3", "GPU-n3-0,NVIDIA,6000,0:;")
    assert bound.annotations["hami.io/vgpu-node"] == "n3"
    await site.restart()
    assert [await site.free_mib(name) for name in THREE] == [10000, 10000, 4000]


async def test_a_bind_elsewhere_keeps_the_time_of_the_decision(site: Site) -> None:
    """binding 1 time of Filter."""
    pod = await filtered(site)
    await site.clock.advance(7)
    await site.bind(pod, "n2")
    annotations = (await site.pod()).annotations
    assert int(annotations["hami.io/bind-time"]) - int(annotations["hami.io/vgpu-time"]) == 7


async def test_who_waits_is_woken_when_the_reservation_moves(site: Site) -> None:
    """binding 4: capacity is released."""
    pod = await filtered(site, memory_mib=9000)
    for name in ("n2", "n3"):
        await site.bind_by_another(await site.submit(f"on-{name}", memory_mib=100), name, share_of(name, 1000))
    await poll(lambda: len(site.process.state.cluster.ledger) == 3)
    waiting = await site.submit("waiting", memory_mib=9500)
    assert await offer(site, waiting) == []
    assert await site.bind(pod, "n2") == ""
    await site.clock.run_until(
        lambda: "gpuloom.io/woken" in site.process.state.shown.pods[waiting.metadata.uid].annotations, step_s=0.05
    )


async def test_a_node_whose_cards_are_gone_meanwhile_refuses_and_nothing_is_written(site: Site) -> None:
    first, second = await filtered(site, "first", memory_mib=6000), await filtered(site, "second", memory_mib=6000)
    assert (holds(site, first), holds(site, second)) == ("n1", "n2")
    assert await site.bind(first, "n3") == ""
    assert await site.bind(second, "n3") == (
        "node n3 does not take pod default/second any more: 1/1 CardInsufficientMemory, filter again"
    )
    assert (await site.pod("second")).spec.node_name == ""
    assert (await site.wait_event("BindingFailed", "second")).type == "Warning"
    # It is filtered again, and has held its cards until then.
    assert holds(site, second) == "n2"
    assert await offer(site, second) == ["n1", "n2"]
    assert await site.bind(second, "n2") == ""


async def test_a_quota_counts_again_when_the_pod_moves_and_the_pod_itself_once(site: Site) -> None:
    first, second = await filtered(site, "first"), await filtered(site, "second")
    await limit(site, 5000)
    assert await site.bind(second, "n2") == (
        "node n2 does not take pod default/second any more: 1/1 ResourceQuotaNotFit, filter again"
    )
    await site.remove(first)
    assert await site.bind(second, "n2") == ""


async def test_a_node_that_is_gone_ends_the_reservation(site: Site) -> None:
    """binding 2 step 2."""
    pod = await filtered(site)
    assert await site.bind(pod, "n9") == 'node "n9" not found'
    assert holds(site, pod) is None


async def test_a_pod_that_was_not_filtered_is_not_bound(site: Site) -> None:
    """binding 2 step 1."""
    assert await site.bind(await site.submit(), "n2") == "no reservation of pod default/p on node n2, filter again"


async def test_a_pod_that_waits_for_a_lock_is_not_moved_away_from_it(site: Site) -> None:
    pod = await filtered(site)
    await site.annotate("n2", {LOCK: OTHER_LOCK})
    await site.submit("other")
    first = site.start_bind(pod, "n2")
    await poll(lambda: site.process.locks.waiting == 1)
    assert await site.bind(pod, "n3") == "bind of pod default/p in progress"
    await site.unlock("n2")
    assert await site.clock.run_until_done(first) == ""
    assert (await site.pod()).spec.node_name == "n2"


async def test_a_filter_while_a_moved_bind_waits_supersedes_it(site: Site) -> None:
    """binding 2 step 4."""
    pod = await filtered(site)
    await site.annotate("n2", {LOCK: OTHER_LOCK})
    await site.submit("other")
    bind = site.start_bind(pod, "n2")
    await poll(lambda: site.process.locks.waiting == 1)
    assert await offer(site, pod) == list(THREE)
    assert "superseded" in await site.clock.run_until_done(bind)
    assert (await site.pod()).spec.node_name == ""


async def test_a_bound_pod_whose_watch_is_late_is_not_moved(site: Site) -> None:
    pod = await filtered(site)
    site.server.faults.cut_watches("pods")
    site.fail("GET", r"/pods\?", status=503, times=1000)
    assert await site.bind(pod, "n2") == ""
    assert not site.process.state.shown.pods[pod.metadata.uid].spec.node_name
    assert await site.bind(pod, "n3") == "pod default/p is already bound to node n2"
    assert holds(site, pod) == "n2"


async def test_cards_stay_held_on_the_chosen_node_while_the_outcome_is_unknown(site: Site) -> None:
    """binding 2.1 unknown."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", delay_s=0.3)
    bind = site.start_bind(pod, "n2")
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    assert await site.bind(pod, "n3") == "bind of pod default/p in progress"
    assert holds(site, pod) == "n2"
    assert await bind == ""


async def test_a_definite_failure_gives_back_the_cards_of_the_chosen_node(site: Site) -> None:
    """binding 2.1 definite failure."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", status=403)
    assert await site.bind(pod, "n2") != ""
    assert holds(site, pod) is None
    assert [await site.free_mib(name) for name in THREE] == [10000] * 3


async def test_a_new_leader_binds_nothing_that_another_filtered(empty: Site) -> None:
    """binding 5 term."""
    await make_lease(empty, "here_1")
    await empty.start(dataclasses.replace(ELECTED, node_choice="scheduler"))
    await empty.process.wait_synced()
    await become_leader(empty)
    for name in THREE:
        await empty.register(name)
    pod = await filtered(empty)
    await change_lease(empty, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: bool(empty.process.state.charge.obstacle))
    assert "there_1" in await empty.bind(pod, "n2")
    await change_lease(empty, holderIdentity="here_2", leaseTransitions=2)
    await poll(lambda: not empty.process.state.charge.obstacle)
    await become_leader(empty)
    assert await empty.bind(pod, "n2") == "no reservation of pod default/p on node n2, filter again"
    assert (await empty.pod()).spec.node_name == ""
    assert await offer(empty, pod) == list(THREE)
    assert await empty.bind(pod, "n2") == ""


def test_what_stands_on_the_pod_before_its_binding_cannot_follow_kube_scheduler() -> None:
    with pytest.raises(SettingsError, match="--node-choice=scheduler needs --filter-write=bind"):
        SchedulerSettings(node_choice="scheduler", filter_write="inline")
