"""Bind: lock, one Binding with everything in it, and what came of it (binding 1, 2 and 2.1)."""

import asyncio
import dataclasses
from typing import Any

import pytest
from local.scheduler.clock import DEADLINE_S, let_answers_arrive, poll
from local.scheduler.site import ALLOCATED, DEFAULTS, LOCK, PHASE, TO_ALLOCATE, VGPU_NODE, Site, card, share_of

from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import NODES, PODS, RESOURCE_QUOTAS
from gpuloom.scheduler.bind.nodelock.locks import WRITES_AT_ONCE
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Pod

OTHER_LOCK = "2026-11-21T12:00:00Z,default,other"


async def filtered(site: Site, name: str = "p", **request: Any) -> Pod:
    pod = await site.submit(name, **request)
    assert await site.choose(pod) == "n1"
    return pod


async def start_waiting(site: Site) -> tuple[Pod, "asyncio.Task[str]"]:
    """A pod, and its bind, which waits for the lock that another pod has."""
    pod = await filtered(site)
    await site.submit("other")
    await site.annotate("n1", {LOCK: OTHER_LOCK})
    bind = site.start_bind(pod)
    await poll(lambda: site.process.locks.waiting == 1)
    return pod, bind


async def decided_elsewhere(site: Site, priority: int = 0, node: str = "n1") -> Pod:
    """A pod that another scheduler has filtered: its annotations name its cards."""
    pod = await site.submit(spec={"priority": priority})
    await site.change_pod("p", {"metadata": {"annotations": share_of(node)}})
    await poll(lambda: VGPU_NODE in site.process.state.shown.pods[pod.metadata.uid].annotations)
    return pod


async def test_node_and_cards_arrive_in_one_write(site: Site) -> None:
    """binding 1 one write; D-39."""
    pod = await filtered(site)
    assert await site.bind(pod) == ""
    bound = await site.pod()
    assert bound.spec.node_name == "n1"
    assert dict(bound.annotations) == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1795262400",
        "hami.io/vgpu-devices-to-allocate": "GPU-n1-0,NVIDIA,3000,0:;",
        "hami.io/vgpu-devices-allocated": "GPU-n1-0,NVIDIA,3000,0:;",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1795262400",
    }


async def test_vgpu_time_is_when_the_decision_was_made(site: Site) -> None:
    """binding 1 time of Filter."""
    pod = await filtered(site)
    await site.clock.advance(7)
    await site.bind(pod)
    annotations = (await site.pod()).annotations
    assert int(annotations["hami.io/bind-time"]) - int(annotations["hami.io/vgpu-time"]) == 7


async def test_a_successful_bind_leaves_the_lock_to_the_device_plugin(site: Site) -> None:
    """binding 2 step 6."""
    pod = await filtered(site)
    await site.bind(pod)
    assert await site.lock() == "2026-11-21T12:00:00Z,default,p"


async def test_success_and_failure_are_events(site: Site) -> None:
    """binding 2 step 6; scheduler 7.1 step 6; scheduler 7.1 F."""
    await site.bind(await filtered(site, "good"))
    await site.bind(await site.submit("bad"))
    assert (await site.wait_event("BindingSucceed", "good")).message == "Successfully binding node [n1] to default/good"
    assert (await site.wait_event("BindingFailed", "bad")).type == "Warning"


async def test_a_pod_that_is_bound_at_once_gets_one_event(site: Site) -> None:
    """binding 7 events: they give way to calls, and that a pod is bound says more than that its node was chosen."""
    site.process.parts.latencies.underway += 1
    await site.bind(await filtered(site))
    site.process.parts.latencies.underway -= 1
    await site.wait_event("BindingSucceed")
    await site.process.parts.recorder.flush()
    assert [event.reason for event in await site.events()] == ["BindingSucceed"]


async def test_a_pod_without_cards_is_bound_without_lock_and_annotations(site: Site) -> None:
    """binding 2 step 0."""
    pod = await site.submit(cards=0, memory_mib=0, seen=False)
    assert await site.bind(pod) == ""
    bound = await site.pod()
    assert (bound.spec.node_name, dict(bound.annotations), await site.lock()) == ("n1", {}, None)


async def test_an_old_mig_annotation_is_emptied(site: Site) -> None:
    """binding 1 annotation that must vanish."""
    pod = await filtered(site)
    await site.change_pod("p", {"metadata": {"annotations": {"hami.io/vgpu-mig-allocations": "[]"}}})
    await poll(lambda: "hami.io/vgpu-mig-allocations" in site.process.state.shown.pods[pod.metadata.uid].annotations)
    await site.bind(pod)
    assert (await site.pod()).annotations["hami.io/vgpu-mig-allocations"] == ""


async def test_a_bind_without_filter_is_refused(site: Site) -> None:
    """binding 2 step 1."""
    pod = await site.submit()
    assert await site.bind(pod) == "no reservation of pod default/p on node n1, filter again"
    assert await site.lock() is None


async def test_a_bind_to_another_node_than_decided_is_refused(site: Site) -> None:
    await site.register("n2")
    assert "no reservation" in await site.bind(await filtered(site), "n2")


async def test_what_another_scheduler_decided_is_adopted_when_it_still_fits(site: Site) -> None:
    """binding 2 step 1."""
    pod = await decided_elsewhere(site)
    assert await site.bind(pod) == ""
    assert (await site.pod()).annotations[ALLOCATED] == "GPU-n1-0,NVIDIA,3000,0:;;"


async def test_what_another_scheduler_decided_is_refused_when_the_card_is_full(site: Site) -> None:
    """binding 2 step 1."""
    await filtered(site, "first", memory_mib=9000)
    assert "filter again" in await site.bind(await decided_elsewhere(site))


async def test_what_another_scheduler_decided_is_refused_where_a_quota_leaves_too_little(site: Site) -> None:
    """binding 2 step 1; scheduler 6.10."""
    pod = await decided_elsewhere(site)
    hard = {"limits.nvidia.com/gpumem": "2000"}
    await site.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="default")
    await poll(lambda: bool(site.process.state.cluster.quotas.limits("default")))
    assert "filter again" in await site.bind(pod)
    assert len(site.process.state.cluster.ledger) == 0


@pytest.mark.parametrize(("priority", "bound"), [(0, []), (1, []), (2, ["p"])])
async def test_what_another_scheduler_decided_leaves_a_nominated_pod_its_room(
    site: Site, priority: int, bound: list[str]
) -> None:
    """binding 2 step 1: as a Filter here, it gives way to those of the same or a higher priority."""
    waits = await site.submit("waits", memory_mib=9000, spec={"priority": 1})
    demands = site.process.state.settings.read_demands(waits)
    site.process.state.nominations.put(
        Nomination(waits.metadata.uid, "default", "waits", "n1", 1, demands, site.process.parts.clocks.unix)
    )
    pod = await decided_elsewhere(site, priority)
    assert bool(await site.bind(pod)) is not bool(bound)
    assert [one.name for one in site.process.state.cluster.ledger] == bound


async def test_a_bind_for_another_node_than_a_pod_was_just_bound_to_changes_nothing(site: Site) -> None:
    """binding 2 step 2: its annotations say less than our own Binding, which the watch has not shown yet."""
    await site.register("n2")
    pod = await decided_elsewhere(site, node="n2")
    assert await site.choose(pod, "n1") == "n1"
    site.server.faults.cut_watches("pods")
    site.fail("GET", r"/pods\?", status=503, times=1000)
    assert await site.bind(pod) == ""
    assert await site.bind(pod, "n2") == "pod default/p is already bound to node n1"
    assert [one.node for one in site.process.state.cluster.ledger] == ["n1"]


async def test_a_pod_already_bound_here_is_a_success(site: Site) -> None:
    """binding 2 step 2."""
    pod = await filtered(site)
    await site.bind(pod)
    await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    assert await site.bind(pod) == ""


async def test_a_pod_bound_elsewhere_is_an_error_and_counted_there(site: Site) -> None:
    """binding 2 step 2; binding 2.2 bound elsewhere."""
    await site.register("n2")
    pod = await filtered(site, memory_mib=6000)
    await site.bind_by_another(pod, "n2", share_of("n2", 6000))
    await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    assert await site.bind(pod) == "pod default/p is already bound to node n2"
    assert (await site.free_mib("n1"), await site.free_mib("n2")) == (10000, 4000)


async def test_a_pod_recreated_under_its_name_is_not_bound_for_the_old_one(site: Site) -> None:
    """binding 2 step 5."""
    old = await filtered(site, memory_mib=9000)
    site.server.faults.cut_watches("pods")
    site.fail("GET", r"/pods\?", status=503, times=1000)
    await site.client.delete(PODS, "p", namespace="default", grace_period_s=0)
    await site.submit(seen=False)
    assert "Precondition failed" in await site.bind(old)
    assert (await site.pod()).spec.node_name == ""
    assert await site.free_mib("n1") == 10000


async def test_a_bind_of_a_pod_that_is_gone_gives_back_its_share(site: Site) -> None:
    """binding 2 step 2; scheduler 7.1 step 1."""
    pod = await filtered(site, memory_mib=9000)
    await site.remove(pod)
    assert await site.bind(pod) == 'pod "p" not found'
    assert await site.free_mib("n1") == 10000


async def test_a_bind_for_another_uid_is_refused_and_the_named_uid_dropped(site: Site) -> None:
    """binding 2 step 2."""
    await site.submit()
    assert await site.bind(await site.pod(), uid="other") == 'pod "p" not found: another pod has its name now'
    assert "other" in site.process.state.shown.gone


async def test_a_bind_to_a_node_that_is_gone_fails(site: Site) -> None:
    """scheduler 7.1 step 2."""
    pod = await filtered(site)
    await site.client.delete(NODES, "n1")
    await poll(lambda: "n1" not in site.process.state.shown.nodes)
    assert await site.bind(pod) == 'node "n1" not found'


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_a_definite_failure_gives_back_lock_and_share(site: Site, status: int) -> None:
    """binding 2.1 definite failure; D-25."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", status=status, message="no")
    assert await site.bind(pod) == f"bind Pod default/p: no (HTTP {status})"
    assert await site.lock() is None
    assert await site.free_mib("n1") == 10000


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 408}, {"cut": True}])
async def test_an_open_outcome_that_turns_out_unbound_is_a_failure(site: Site, fault: dict[str, int]) -> None:
    """binding 2.1 unknown."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", **fault)
    assert "bind Pod default/p" in await site.clock.run_until_done(site.start_bind(pod))
    assert await site.lock() is None
    assert await site.free_mib("n1") == 10000


async def test_nothing_is_given_back_while_a_binding_may_still_arrive(site: Site) -> None:
    """binding 2.1 unknown: what was sent may land after it was given up."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", cut=True)
    asked = site.fail("GET", "/pods/p$")
    bind = site.start_bind(pod)
    await poll(lambda: site.has_happened(asked))
    await site.clock.advance(4.9)
    await let_answers_arrive()
    assert await site.lock() is not None
    assert await site.choose(await site.submit("next", memory_mib=9000)) is None
    await site.bind_by_another(pod, "n1", share_of("n1", 9000))
    assert await site.clock.run_until_done(bind) == ""
    assert await site.free_mib("n1") == 1000


async def test_bindings_whose_outcome_is_open_hold_up_no_others(site: Site) -> None:
    sent = site.fail("POST", "/pods/open-[0-9]+/binding", cut=True, times=WRITES_AT_ONCE)
    site.fail("GET", "/pods/open-", status=500, times=1000)
    binds = []
    for number in range(WRITES_AT_ONCE):
        await site.register(node := f"more-{number}")
        pod = await site.submit(f"open-{number}")
        assert await site.choose(pod, node) == node
        binds.append(site.start_bind(pod, node))
    await poll(lambda: site.has_happened(sent))
    other = await filtered(site, "other")
    async with asyncio.timeout(DEADLINE_S):
        assert await site.bind(other) == ""
    assert not any(bind.done() for bind in binds)
    site.server.faults.clear()
    for bind in binds:
        assert await site.clock.run_until_done(bind) != ""


@pytest.mark.parametrize("status", [409, 429])
async def test_a_refusal_of_a_binding_that_is_not_there_is_a_failure_at_once(site: Site, status: int) -> None:
    """binding 2.1 unknown: nothing is under way then."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", status=status)
    assert "bind Pod default/p" in await site.bind(pod)
    assert await site.lock() is None
    assert await site.free_mib("n1") == 10000


async def test_a_lost_reply_of_a_binding_that_was_made_is_a_success(site: Site) -> None:
    """binding 2.1 unknown."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", lose_answer=True)
    assert await site.bind(pod) == ""
    assert await site.lock() is not None
    assert await site.free_mib("n1") == 1000


async def test_a_conflict_that_is_the_echo_of_an_earlier_write_is_a_success(site: Site) -> None:
    """binding 2.1 unknown."""
    pod = await filtered(site)
    site.server.faults.cut_watches("pods")
    site.fail("GET", r"/pods\?", status=503, times=1000)
    await site.bind_by_another(pod, "n1", share_of())
    assert await site.bind(pod) == ""


async def test_a_pod_that_another_binds_elsewhere_during_our_write_is_counted_there(site: Site) -> None:
    """binding 2.2 bound elsewhere."""
    await site.register("n2")
    pod = await filtered(site, memory_mib=6000)
    site.fail("POST", "/binding", delay_s=0.3)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    await site.bind_by_another(pod, "n2", share_of("n2", 6000))
    assert "already assigned" in await bind
    assert (await site.free_mib("n1"), await site.free_mib("n2")) == (10000, 4000)


async def test_a_429_with_a_delay_is_obeyed(site: Site) -> None:
    """binding 2.1 after retries."""
    pod = await filtered(site)
    site.fail("POST", "/binding", status=429, retry_after_s=1)
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_lock_and_share_stay_while_the_outcome_is_unknown(site: Site) -> None:
    """binding 2.1 unknown."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", cut=True)
    silence = site.fail("GET", "/pods/p$", status=503, times=1000)
    bind = site.start_bind(pod)
    await site.clock.run_until(lambda: silence.times < 995)
    assert not bind.done()
    assert await site.lock() is not None
    assert await site.choose(await site.submit("next", memory_mib=2000)) is None
    site.server.faults.clear()
    assert "bind Pod default/p" in await site.clock.run_until_done(bind)


async def test_the_watch_settles_an_unknown_outcome(site: Site) -> None:
    """binding 2.1 the watch may settle it."""
    pod = await filtered(site)
    site.fail("POST", "/binding", lose_answer=True)
    site.fail("GET", "/pods/p$", status=503, times=1000)
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_a_filter_while_the_binding_is_under_way_changes_nothing(site: Site) -> None:
    """binding 2 Filter while a Bind is open."""
    pod = await filtered(site, memory_mib=9000)
    site.fail("POST", "/binding", delay_s=0.3)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    assert (await site.filter(pod))["Error"] == "bind of pod default/p in progress"
    assert await bind == ""


async def test_a_second_bind_of_a_pod_is_refused_while_the_first_waits(site: Site) -> None:
    """binding 2 step 3."""
    pod = await filtered(site)
    await site.annotate("n1", {LOCK: OTHER_LOCK})
    await site.submit("other")
    first = site.start_bind(pod)
    await poll(lambda: site.process.locks.waiting == 1)
    assert await site.bind(pod) == "bind of pod default/p in progress"
    await site.unlock()
    assert await site.clock.run_until_done(first) == ""


async def test_a_bind_of_a_pod_filtered_again_meanwhile_ends_without_writing(site: Site) -> None:
    """binding 2 step 4; binding 3 leaves when superseded."""
    await site.register("n2")
    pod = await site.submit()
    await site.choose(pod, "n1")
    await site.submit("other")
    await site.annotate("n1", {LOCK: OTHER_LOCK})
    bind = site.start_bind(pod, "n1")
    await poll(lambda: site.process.locks.waiting == 1)
    assert await site.choose(pod, "n2") == "n2"
    answer = await site.clock.run_until_done(bind)
    assert "the reservation of pod default/p on node n1 was superseded" in answer
    assert await site.lock() == OTHER_LOCK
    assert await site.bind(pod, "n2") == ""


async def test_a_bind_superseded_while_it_sets_the_lock_gives_the_lock_back(site: Site) -> None:
    """binding 2 step 4."""
    await site.register("n2")
    pod = await site.submit()
    await site.choose(pod, "n1")
    setting = site.fail("PATCH", "/nodes/n1", delay_s=0.3)
    bind = site.start_bind(pod, "n1")
    await poll(lambda: site.has_happened(setting))
    await site.choose(pod, "n2")
    assert "was superseded" in await bind
    assert await site.lock("n1") is None
    assert (await site.pod()).spec.node_name == ""


async def cordon(site: Site, uuid: str | None = "GPU-n1-0", node: str = "n1") -> None:
    """Let this be the only card of the node that takes no new pods."""
    await site.annotate(node, {NODE_CORDON: uuid})


async def filtered_on_two(site: Site) -> tuple[Pod, str, str]:
    """A pod, the card that was chosen for it on a node of two cards, and the other one."""
    await site.register("n2", card("n2"), card("n2", 1))
    pod = await site.submit()
    assert await site.choose(pod, "n2") == "n2"
    (held,) = site.process.state.cluster.ledger
    chosen = held.shares["NVIDIA"][0][0].uuid
    (other,) = {"GPU-n2-0", "GPU-n2-1"} - {chosen}
    return pod, chosen, other


async def test_a_pod_does_not_come_to_a_card_that_was_cordoned_since_it_was_filtered(site: Site) -> None:
    """binding 2 step 4: filtered again it gets another."""
    pod, chosen, other = await filtered_on_two(site)
    await cordon(site, chosen, "n2")
    said = f"card {chosen} of node n2 was cordoned after it was chosen for pod default/p, filter again"
    assert await site.bind(pod, "n2") == said
    assert (await site.wait_event("BindingFailed")).message == said
    assert ((await site.pod()).spec.node_name, await site.lock("n2")) == ("", None)
    assert await site.choose(pod, "n2") == "n2"
    assert await site.bind(pod, "n2") == ""
    assert (await site.pod()).annotations[ALLOCATED].startswith(f"{other},")


async def test_a_pod_comes_to_its_card_when_another_is_cordoned(site: Site) -> None:
    pod, _, other = await filtered_on_two(site)
    await cordon(site, other, "n2")
    assert await site.bind(pod, "n2") == ""


async def test_a_pod_comes_to_a_card_that_was_opened_again(site: Site) -> None:
    pod = await filtered(site)
    await cordon(site)
    assert "was cordoned" in await site.bind(pod)
    await cordon(site, None)
    assert await site.bind(pod) == ""


async def test_a_bind_ends_when_the_card_is_cordoned_while_it_waits(site: Site) -> None:
    """binding 3: it leaves the queue."""
    _, bind = await start_waiting(site)
    await cordon(site)
    assert "was cordoned" in await site.clock.run_until_done(bind)
    assert site.clock.elapsed_s < 5
    assert ((await site.pod()).spec.node_name, await site.lock()) == ("", OTHER_LOCK)


async def test_a_bind_ends_when_the_card_is_cordoned_while_it_sets_the_lock(site: Site) -> None:
    """binding 2 step 4."""
    pod = await filtered(site)
    setting = site.fail("PATCH", "/nodes/n1", delay_s=0.3)
    bind = site.start_bind(pod)
    await poll(lambda: site.has_happened(setting))
    await cordon(site)
    assert "was cordoned" in await bind
    assert ((await site.pod()).spec.node_name, await site.lock()) == ("", None)


def hide_nodes(site: Site) -> None:
    """Let the scheduler see nothing more of nodes."""
    site.fail("GET", r"/nodes\?", status=503, times=1000)
    site.server.faults.cut_watches("nodes")


async def test_a_pod_does_not_come_to_a_card_that_was_cordoned_though_no_watch_shows_it(site: Site) -> None:
    """binding 2 step 4: the lock that is set shows the node as it is."""
    pod = await filtered(site)
    hide_nodes(site)
    await site.client.patch(NODES, "n1", {"metadata": {"annotations": {NODE_CORDON: "GPU-n1-0"}}})
    assert "card GPU-n1-0 of node n1 was cordoned" in await site.bind(pod)
    assert ((await site.pod()).spec.node_name, await site.lock()) == ("", None)


async def test_a_pod_that_is_bound_stays_so_when_its_card_is_cordoned(site: Site) -> None:
    """binding 2 step 2."""
    pod = await filtered(site)
    assert await site.bind(pod) == ""
    await cordon(site)
    assert await site.bind(pod) == ""
    assert site.process.state.cluster.ledger.find(pod.metadata.uid) is not None


async def test_a_binding_whose_outcome_is_open_is_settled_whatever_is_cordoned(site: Site) -> None:
    """binding 2.1: it may have arrived, so what it holds is not given back."""
    pod = await filtered(site)
    site.fail("POST", "/binding", delay_s=0.3, lose_answer=True)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    await cordon(site)
    assert await bind == ""
    assert site.process.state.cluster.ledger.find(pod.metadata.uid) is not None


async def test_a_pod_deleted_while_its_bind_waits_ends_the_waiting(site: Site) -> None:
    """binding 3 leaves when deleted."""
    pod, bind = await start_waiting(site)
    await site.remove(pod)
    assert "pod default/p was deleted" in await site.clock.run_until_done(bind)
    assert site.clock.elapsed_s < 5


async def test_a_caller_who_hangs_up_ends_the_waiting(site: Site) -> None:
    """binding 3 leaves when its client hangs up."""
    _, bind = await start_waiting(site)
    bind.cancel()
    await poll(lambda: site.process.locks.waiting == 0)
    await site.unlock()
    await let_answers_arrive()
    assert (await site.pod()).spec.node_name == ""


async def test_a_caller_who_hangs_up_does_not_stop_a_binding_that_was_sent(site: Site) -> None:
    """binding 2.1 definite success."""
    pod = await filtered(site)
    site.fail("POST", "/binding", delay_s=0.2)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    bind.cancel()
    await poll(lambda: not site.process.state.binds.binding)
    assert (await site.pod()).spec.node_name == "n1"


async def test_stopping_lets_a_binding_that_was_sent_come_to_its_end(site: Site) -> None:
    """binding 5 a write already sent is settled."""
    pod = await filtered(site)
    site.fail("POST", "/binding", delay_s=0.2)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    await site.stack.aclose()
    assert await bind == ""
    assert (await site.pod()).spec.node_name == "n1"


async def test_stopping_answers_a_bind_that_waits(site: Site) -> None:
    """binding 5 SIGTERM; scheduler 7.1 shutdown while waiting."""
    _, bind = await start_waiting(site)
    async with asyncio.timeout(DEADLINE_S):
        await site.stack.aclose()
    assert await bind == "scheduler shutting down while waiting for node lock: node lock contention"


async def test_the_label_follows_where_the_api_server_does_not_copy_it(site: Site) -> None:
    """binding 1 label; D-48; D-35."""
    pod = await filtered(site)
    await site.bind(pod)
    await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    await site.clock.run_until(lambda: VGPU_NODE in site.process.state.shown.pods[pod.metadata.uid].labels)
    assert (await site.pod()).labels[VGPU_NODE] == "n1"


async def test_ten_pods_bound_at_once_to_one_node_never_over_allocate(site: Site) -> None:
    pods = [await site.submit(f"p{number}", memory_mib=3000) for number in range(10)]

    async def schedule(position: int) -> str:
        node = await site.choose(pods[position])
        return await site.bind(pods[position], node) if node else "no room"

    calls = [asyncio.create_task(schedule(position)) for position in range(10)]
    served = 0
    async with asyncio.timeout(DEADLINE_S):
        while not all(call.done() for call in calls):
            if await site.lock():
                served += 1
                await site.unlock()
            await asyncio.sleep(0.005)
    assert sorted(call.result() for call in calls) == [""] * 3 + ["no room"] * 7
    used = [(await site.pod(pod.name)).annotations.get(TO_ALLOCATE) for pod in pods]
    assert sum(one is not None for one in used) == 3


NO_CARDS = {
    "count 0": {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "1000"},
    "priority only": {"nvidia.com/priority": "1"},
    "memory without a count": {"nvidia.com/gpumem": "1000"},
    "an unusable amount": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"},
}


@pytest.mark.parametrize("limits", NO_CARDS.values(), ids=NO_CARDS)
async def test_what_asks_for_no_card_is_bound_without_lock_and_annotations(site: Site, limits: dict[str, str]) -> None:
    """binding 2 step 0."""
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    pod = await site.submit(seen=False, spec={"containers": containers})
    assert await site.bind(pod) == ""
    assert ((await site.pod()).spec.node_name, await site.lock()) == ("n1", None)


async def test_a_question_for_an_unknown_pod_that_fails_drops_no_reservation(site: Site) -> None:
    """binding 2 step 2: only 404 or another UID drops it."""
    site.server.faults.cut_watches("pods")
    outage = site.fail("GET", r"/pods\?", status=503, times=1000)
    pod = await site.submit(seen=False)
    assert await site.choose(pod) == "n1"
    site.fail("GET", "/pods/p$", status=500)
    assert "500" in await site.bind(pod)
    assert site.process.state.cluster.ledger.find(pod.metadata.uid) is not None
    site.server.faults.waiting.remove(outage)


async def test_a_pod_whose_init_container_alone_has_a_card_takes_the_lock(site: Site) -> None:
    """B-19."""
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
    spec = {
        "initContainers": [{"name": "init", "image": "i", "resources": resources}],
        "containers": [{"name": "main", "image": "i"}],
    }
    assert await site.bind(await filtered(site, spec=spec)) == ""
    assert await site.lock() == "2026-11-21T12:00:00Z,default,p"


INLINE = dataclasses.replace(DEFAULTS, filter_write="inline")


async def test_with_inline_writes_a_failed_bind_keeps_what_filter_reserved(site: Site) -> None:
    """B-22; scheduler 7.1 F: the reservation stays."""
    await site.restart(INLINE)
    pod = await filtered(site)
    site.fail("POST", "/binding$", status=403)
    assert "403" in await site.bind(pod)
    assert await site.lock() is None
    assert site.process.state.cluster.ledger.find(pod.metadata.uid) is not None


async def test_with_inline_writes_a_pod_is_not_bound_without_its_phase(site: Site) -> None:
    """B-45; scheduler 7.1 step 4."""
    await site.restart(INLINE)
    pod = await filtered(site)
    site.fail("PATCH", "/pods/p$", status=403)
    assert "403" in await site.bind(pod)
    assert ((await site.pod()).spec.node_name, await site.lock()) == ("", None)


async def test_with_inline_writes_a_filter_takes_nothing_off_a_pod_whose_binding_is_under_way(site: Site) -> None:
    """binding 2 Filter while a Bind is open: it changes nothing."""
    await site.restart(INLINE)
    pod = await filtered(site)
    site.fail("POST", "/binding", delay_s=0.3)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    assert (await site.filter(await site.pod()))["Error"] == "bind of pod default/p in progress"
    assert await bind == ""
    assert (await site.pod()).annotations[VGPU_NODE] == "n1"


async def test_with_inline_writes_the_steps_are_hamis(site: Site) -> None:
    """scheduler 7.1 step 5: the annotations by Filter, then lock, phase, binding."""
    await site.restart(INLINE)
    pod = await filtered(site)
    assert (await site.pod()).annotations[VGPU_NODE] == "n1"
    assert await site.bind(pod) == ""
    bound = await site.pod()
    assert (bound.spec.node_name, bound.annotations[PHASE]) == ("n1", "allocating")
    assert await site.lock() is not None


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
async def test_a_bind_that_does_not_say_what_to_bind_is_an_error(site: Site, missing: str) -> None:
    """binding 6 bad input harms nobody."""
    pod = await filtered(site)
    args = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.metadata.uid, "Node": "n1"}
    reply = await site.call("bind", args | {missing: ""})
    assert reply["Error"] == "bind args must name pod, namespace, UID and node"
    assert await site.bind(pod) == ""


async def test_a_lock_that_is_given_back_is_not_taken_over_by_the_next_bind_of_the_same_pod(site: Site) -> None:
    """binding 2 step 4, release the lock if this Bind took it: what the first one removes must not be the second's."""
    pod = await site.submit()
    await site.choose(pod)
    setting = site.fail("PATCH", "/nodes/n1", delay_s=0.3)
    superseded = site.start_bind(pod)
    await poll(lambda: site.has_happened(setting))
    await site.choose(pod)
    reading = site.fail("GET", "/nodes/n1", delay_s=0.3)
    second = site.start_bind(pod)
    assert "was superseded" in await superseded
    assert site.has_happened(reading)
    assert await second == ""
    assert str(await site.lock()).endswith(",default,p")


async def test_a_bind_to_a_deleted_node_gives_back_its_share_and_says_which_node(site: Site) -> None:
    """scheduler 7.1 step 2."""
    pod = await filtered(site)
    await site.client.delete(NODES, "n1")
    await poll(lambda: "n1" not in site.process.state.shown.nodes)
    assert await site.bind(pod) == 'node "n1" not found'
    assert (await site.wait_event("BindingFailed", "p")).message == "failed to get node n1"
    assert site.process.state.cluster.ledger.find(pod.metadata.uid) is None
