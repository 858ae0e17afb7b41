"""What the watches show: who is counted, who is woken, what a restart remembers (binding 2.2 and 4)."""

from dataclasses import replace

import pytest
import structlog.testing
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import ALLOCATED, DEFAULTS, LOCK, REGISTER, VGPU_NODE, Site, card, share_of

from gpuloom.kube import NODES, PODS
from gpuloom.scheduler.watch.shown import MOST_GONE
from gpuloom.wire.objects import Pod

WOKEN = "gpuloom.io/woken"


async def occupy(site: Site, name: str = "occupant", memory_mib: int = 9000) -> None:
    pod = await site.submit(name, memory_mib=memory_mib)
    assert await site.choose(pod) == "n1"
    assert await site.bind(pod) == ""
    await site.unlock()


async def is_woken(site: Site, name: str = "p") -> None:
    uid = (await site.pod(name)).metadata.uid
    await site.clock.run_until(lambda: WOKEN in site.process.state.shown.pods[uid].annotations, step_s=0.05)


async def stays_asleep(site: Site, name: str = "p") -> None:
    await site.clock.advance(1)
    await let_answers_arrive()
    assert WOKEN not in (await site.pod(name)).annotations


async def test_an_unbound_pods_annotations_count_nothing(site: Site) -> None:
    """binding 2.2 who is counted; D-41."""
    pod = await site.submit(memory_mib=9000)
    await site.change_pod("p", {"metadata": {"annotations": share_of("n1", 9000)}})
    await poll(lambda: ALLOCATED in site.process.state.shown.pods[pod.metadata.uid].annotations)
    assert await site.free_mib("n1") == 10000


async def test_a_bound_pod_whose_annotation_names_another_node_is_not_counted(site: Site) -> None:
    """binding 2.2 who is counted."""
    await site.register("n2")
    pod = await site.submit()
    await site.bind_by_another(pod, "n2", share_of("n1"))
    await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    assert (await site.free_mib("n1"), await site.free_mib("n2")) == (10000, 10000)


async def test_a_terminating_bound_pod_is_counted_until_it_is_gone(site: Site) -> None:
    """binding 2.2 terminating."""
    await occupy(site)
    pod = await site.pod("occupant")
    await site.client.delete(PODS, "occupant", namespace="default")
    await poll(lambda: site.process.state.shown.pods[pod.metadata.uid].is_terminating)
    assert await site.free_mib("n1") == 1000
    await site.remove(pod)
    assert await site.free_mib("n1") == 10000


async def test_a_pod_that_ended_holds_nothing(site: Site) -> None:
    await occupy(site)
    pod = await site.change_pod("occupant", {"status": {"phase": "Succeeded"}}, subresource="status")
    await poll(lambda: pod.metadata.uid in site.process.state.shown.gone)
    assert await site.free_mib("n1") == 10000


async def test_a_bound_pods_later_annotations_change_nothing(site: Site) -> None:
    await occupy(site)
    await site.wait_for_pod(await site.change_pod("occupant", {"metadata": {"annotations": {ALLOCATED: ";"}}}))
    assert await site.free_mib("n1") == 1000


async def test_cards_given_by_another_scheduler_replace_what_was_reserved_here(site: Site) -> None:
    pod = await site.submit(memory_mib=3000)
    await site.choose(pod)
    await site.bind_by_another(pod, "n1", share_of("n1", 5000))
    await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    assert await site.free_mib("n1") == 5000


async def bind_unreadable(site: Site) -> Pod:
    bad = await site.submit("bad")
    await site.bind_by_another(bad, "n1", {VGPU_NODE: "n1", ALLOCATED: "GPU,x"})
    await site.wait_bound(bad)
    return bad


async def test_an_unreadable_pod_annotation_is_reported_once_and_harms_pods_of_its_node_alone(site: Site) -> None:
    """D-33."""
    await site.register("n2")
    with structlog.testing.capture_logs() as logs:
        await bind_unreadable(site)
        await site.wait_for_pod(await site.change_pod("bad", {"metadata": {"labels": {"again": "1"}}}))
        assert await site.choose(await site.submit(), "n1", "n2") == "n2"
    assert [log["pod"] for log in logs if "cards take no new pods" in log["event"]] == ["default/bad"]


async def test_cards_that_an_unreadable_pod_may_hold_stay_closed_after_a_restart(site: Site) -> None:
    """trust T-11."""
    await bind_unreadable(site)
    await site.restart()
    reply = await site.filter(await site.submit())
    assert reply["FailedAndUnresolvableNodes"] == {"n1": "1/1 CardUnaccounted"}


async def test_a_refused_pod_is_woken_when_an_unreadable_pod_goes(site: Site) -> None:
    """binding 4 pod gone; trust T-11."""
    bad = await bind_unreadable(site)
    assert await site.choose(await site.submit()) is None
    await site.remove(bad)
    await is_woken(site)


async def test_cards_of_an_unreadable_pod_are_given_away_if_so_set(site: Site) -> None:
    await site.restart(replace(DEFAULTS, unreadable="ignore"))
    await bind_unreadable(site)
    assert await site.free_mib("n1") == 10000


async def test_an_unreadable_node_annotation_is_reported_once(site: Site) -> None:
    with structlog.testing.capture_logs() as logs:
        await site.annotate("n1", {REGISTER: "broken"})
        await site.clock.advance(60)
    assert [log["node"] for log in logs if "cannot be read" in log["event"]] == ["n1"]


@pytest.mark.parametrize(("trusts", "free_mib"), [(False, 1000), (True, 9000)])
async def test_what_init_containers_held_is_kept_but_where_annotations_are_trusted(
    site: Site, *, trusts: bool, free_mib: int
) -> None:
    """D-10, decision 042."""
    await site.restart(replace(DEFAULTS, trust_annotations=trusts))
    init = {"name": "init", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000"}}}
    pod = await site.submit(memory_mib=1000, spec={"initContainers": [init]})
    await site.choose(pod)
    await site.bind(pod)
    assert await site.free_mib("n1") == 1000
    ended = [{"name": "init", "state": {"terminated": {"exitCode": 0}}}]
    await site.wait_for_pod(
        await site.change_pod("p", {"status": {"initContainerStatuses": ended}}, subresource="status")
    )
    assert await site.free_mib("n1") == free_mib


async def test_a_restart_counts_what_the_api_objects_say(site: Site) -> None:
    """binding 2.2 restart."""
    await occupy(site, memory_mib=6000)
    filtered = await site.submit(memory_mib=3000)
    await site.choose(filtered)
    await site.restart()
    assert await site.free_mib("n1") == 4000


async def test_a_terminating_pod_is_counted_after_a_restart(site: Site) -> None:
    """B-25; D-37."""
    await occupy(site)
    await site.client.delete(PODS, "occupant", namespace="default")
    await site.restart()
    assert await site.free_mib("n1") == 1000


async def test_a_pod_deleted_while_the_watch_was_down_gives_back_its_share(site: Site) -> None:
    await occupy(site)
    site.server.faults.cut_watches()
    outage = site.fail("GET", r"\?", status=503, times=1000)
    await site.client.delete(PODS, "occupant", namespace="default", grace_period_s=0)
    site.server.faults.expire_history()
    site.server.faults.waiting.remove(outage)
    await poll(lambda: not site.process.state.shown.pods)
    assert await site.free_mib("n1") == 10000


async def test_a_node_deleted_while_the_watch_was_down_is_forgotten(site: Site) -> None:
    site.server.faults.cut_watches()
    outage = site.fail("GET", r"\?", status=503, times=1000)
    await site.client.delete(NODES, "n1")
    site.server.faults.expire_history()
    site.server.faults.waiting.remove(outage)
    await poll(lambda: "n1" not in site.process.state.shown.nodes)
    assert len(site.process.locks) == 0
    assert (await site.filter(await site.submit()))["FailedAndUnresolvableNodes"] == {"n1": "node unregistered"}


async def test_a_refused_pod_is_woken_when_another_goes(site: Site) -> None:
    """binding 4 pod gone."""
    await occupy(site)
    assert await site.choose(await site.submit()) is None
    await site.remove(await site.pod("occupant"))
    await is_woken(site)


async def test_a_refused_pod_is_woken_when_a_node_registers_cards(site: Site) -> None:
    """binding 4 node registered."""
    assert await site.choose(await site.submit(memory_mib=20000)) is None
    await site.register("n2", card("n2", memory_mib=40000))
    await is_woken(site)


async def test_a_refused_pod_is_woken_when_a_card_recovers(site: Site) -> None:
    """binding 4 card healthy."""
    await site.register("n2", card("n2", memory_mib=40000, healthy=False))
    assert await site.choose(await site.submit(memory_mib=20000), "n2") is None
    await site.client.delete(NODES, "n2")
    await poll(lambda: "n2" not in site.process.state.shown.nodes)
    await site.register("n2", card("n2", memory_mib=40000))
    await is_woken(site)


async def test_a_refused_pod_is_woken_when_a_reservation_is_given_up(site: Site) -> None:
    holder = await site.submit("holder", memory_mib=9000)
    await site.choose(holder)
    assert await site.choose(await site.submit()) is None
    await site.choose(holder, "elsewhere")
    await is_woken(site)


async def test_a_pod_that_still_does_not_fit_is_left_alone(site: Site) -> None:
    await occupy(site, "small", 1000)
    await occupy(site, "large", 9000)
    assert await site.choose(await site.submit(memory_mib=5000)) is None
    await site.remove(await site.pod("small"))
    await stays_asleep(site)


async def test_a_pod_that_was_not_refused_is_left_alone(site: Site) -> None:
    await occupy(site)
    await site.submit()
    await site.remove(await site.pod("occupant"))
    await stays_asleep(site)


async def test_the_pod_that_waits_longest_is_woken_first(site: Site) -> None:
    """binding 4 oldest first."""
    await occupy(site)
    for name in ("z-first", "a-second"):
        assert await site.choose(await site.submit(name)) is None
    await site.remove(await site.pod("occupant"))
    await is_woken(site, "a-second")
    first, second = [(await site.pod(name)).metadata.resource_version for name in ("z-first", "a-second")]
    assert int(first) < int(second)


async def test_at_most_twenty_pods_a_second_are_woken(site: Site) -> None:
    """binding 4 at most 20 a second."""
    await occupy(site)
    pods = [await site.submit(f"p{number}", memory_mib=1000) for number in range(25)]
    for pod in pods:
        assert await site.choose(pod) is None or True
    refused = len(site.process.state.waiting.unschedulable)
    started_s = site.clock.elapsed_s
    await site.remove(await site.pod("occupant"))
    await site.clock.run_until(lambda: not site.process.state.waiting.unschedulable, step_s=0.01)
    assert site.clock.elapsed_s - started_s >= (refused - 1) * 0.05


async def test_a_wake_up_that_fails_does_not_stop_the_others(site: Site) -> None:
    await occupy(site)
    for name in ("a", "b"):
        assert await site.choose(await site.submit(name)) is None
    site.fail("PATCH", "/pods/a$", status=500)
    await site.remove(await site.pod("occupant"))
    await is_woken(site, "b")
    await is_woken(site, "a")


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 409}, {"cut": True}])
async def test_a_wake_up_that_fails_is_tried_again(site: Site, fault: dict[str, int]) -> None:
    """binding 4 woken."""
    await occupy(site)
    assert await site.choose(await site.submit()) is None
    failing = site.fail("PATCH", "/pods/p$", **fault)
    await site.remove(await site.pod("occupant"))
    await site.clock.run_until(lambda: site.has_happened(failing), step_s=0.05)
    await is_woken(site)


@pytest.mark.parametrize("status", [403, 422])
async def test_a_wake_up_that_is_refused_is_not_tried_again(site: Site, status: int) -> None:
    await occupy(site)
    assert await site.choose(await site.submit()) is None
    refusal = site.fail("PATCH", "/pods/p$", status=status)
    await site.remove(await site.pod("occupant"))
    await site.clock.run_until(lambda: site.has_happened(refusal), step_s=0.05)
    await let_answers_arrive()
    await site.clock.advance(60)
    await stays_asleep(site)


async def test_a_pod_that_was_tried_while_its_wake_up_failed_is_not_woken_again(site: Site) -> None:
    await occupy(site)
    pod = await site.submit()
    assert await site.choose(pod) is None
    failing = site.fail("PATCH", "/pods/p$", status=500, delay_s=0.2)
    await site.remove(await site.pod("occupant"))
    await site.clock.run_until(lambda: site.has_happened(failing), step_s=0.05)
    assert await site.choose(pod) == "n1"
    await site.clock.run_until(lambda: site.clock.elapsed_s > 60)
    await stays_asleep(site)


async def test_a_watch_that_lags_behind_ends_in_a_wake_up(site: Site) -> None:
    """binding 4 our watch is late."""
    await occupy(site)
    occupant = await site.pod("occupant")
    site.server.faults.cut_watches("pods")
    outage = site.fail("GET", r"/pods\?", status=503, times=1000)
    pod = await site.submit(seen=False)
    await site.client.delete(PODS, "occupant", namespace="default", grace_period_s=0)
    assert await site.choose(pod) is None
    await site.clock.advance(3)
    site.server.faults.waiting.remove(outage)
    await poll(lambda: occupant.metadata.uid in site.process.state.shown.gone)
    await is_woken(site)


async def test_a_late_event_of_a_node_does_not_undo_our_own_lock(site: Site) -> None:
    for name in ("a", "b"):
        await site.choose(await site.submit(name, memory_mib=100))
    site.fail("GET", r"/nodes\?.*watch=true", delay_s=0.3, times=5)
    site.server.faults.cut_watches("nodes")
    assert await site.bind(await site.pod("a")) == ""
    second = site.start_bind(await site.pod("b"))
    await poll(lambda: LOCK in site.process.state.shown.nodes["n1"].annotations)
    await let_answers_arrive()
    assert not second.done()
    await site.unlock()
    assert await second == ""


async def test_a_refused_pod_is_woken_when_init_containers_give_back_their_share(site: Site) -> None:
    """binding 4 init containers done release capacity."""
    await site.restart(replace(DEFAULTS, trust_annotations=True))
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000"}}
    holder = await site.submit(
        "holder", memory_mib=1000, spec={"initContainers": [{"name": "init", "image": "i", "resources": resources}]}
    )
    await site.choose(holder)
    await site.bind(holder)
    await site.wait_bound(holder)
    assert await site.choose(await site.submit(memory_mib=5000)) is None
    ended = [{"name": "init", "state": {"terminated": {"exitCode": 0}}}]
    await site.change_pod("holder", {"status": {"initContainerStatuses": ended}}, subresource="status")
    await is_woken(site)


async def test_only_so_many_deleted_pods_are_remembered(site: Site) -> None:
    """binding 6 bounded input: others choose how many there are."""
    state = site.process.state
    for number in range(MOST_GONE + 10):
        state.remove_pod(f"uid-{number}", 0.0)
    assert (len(state.shown.gone), "uid-9" in state.shown.gone, "uid-10" in state.shown.gone) == (
        MOST_GONE,
        False,
        True,
    )


async def test_a_pod_that_is_bound_and_goes_while_a_list_is_on_its_way_holds_nothing(site: Site) -> None:
    """binding 2.2: the list tells nothing of it, and no watch does."""
    late = site.fail("GET", r"/pods\?.*limit", delay_s=0.5)
    site.server.faults.expire_history()
    site.server.faults.cut_watches("pods")
    await poll(lambda: site.has_happened(late))
    pod = await site.submit(seen=False)
    await site.choose(pod)
    assert await site.bind(pod) == ""
    await site.client.delete(PODS, "p", namespace="default", grace_period_s=0)
    # The list shows this one.
    await site.submit("later")
    await site.clock.run_until(lambda: site.process.state.cluster.ledger.find(pod.metadata.uid) is None)
