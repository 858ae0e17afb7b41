"""Making room for pods of higher priority: who leaves, for whom, and who may have the room meanwhile."""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, REGISTER, Site, card
from local.scheduler.test_quotas import limit
from msgspec.structs import replace as replace_struct

from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.victims import PreemptionPlan
from gpuloom.engine.steps import run_to_end
from gpuloom.kube import HOST_PODS, NODES, PODS
from gpuloom.model.share import Share
from gpuloom.scheduler.preemption import evicting
from gpuloom.scheduler.preemption.flow import PERIOD_S
from gpuloom.scheduler.preemption.nominating import nominate
from gpuloom.web.views.explaining import explain_pod
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register

ON = replace(DEFAULTS, preemption="on")
NOMINATED = "gpuloom.io/nominated"
WOKEN = "gpuloom.io/woken"


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that makes room, and one node with one card of 10,000 MiB for ten pods."""
    await empty.start(ON)
    await empty.process.wait_synced()
    await empty.register("n1")
    return empty


async def run(site: Site, name: str, memory_mib: int, priority: int = 0, *, node: str = "n1", **spec: Any) -> Pod:
    """Let a pod get its cards."""
    pod = await submit(site, name, memory_mib, priority, **spec)
    assert await site.choose(pod, node) == node
    assert await site.bind(pod, node) == ""
    await site.wait_bound(pod)
    await site.unlock(node)
    return await site.pod(name)


async def submit(site: Site, name: str, memory_mib: int, priority: int = 0, **spec: Any) -> Pod:
    return await site.submit(name, memory_mib=memory_mib, spec={"priority": priority, **spec})


async def make_room(site: Site, pod: Pod, *nodes: str) -> None:
    """Let a pod be refused, and wait until room is made for it."""
    assert await site.choose(pod, *nodes) is None
    await site.clock.run_until(lambda: is_nominated(site, pod), step_s=0.05)


def is_nominated(site: Site, pod: Pod) -> bool:
    return site.process.state.nominations.find(pod.metadata.uid) is not None


async def wait_leaving(site: Site, pod: Pod) -> None:
    await poll(lambda: site.process.state.shown.is_terminating(pod.metadata.uid))


async def leaves_nobody(site: Site, *staying: Pod) -> None:
    """Let enough time pass for anything to happen."""
    for _ in range(5):
        await site.clock.advance(1)
        await let_answers_arrive()
    for pod in staying:
        assert not (await site.pod(pod.name)).is_terminating


def dropped(site: Site) -> dict[str, int]:
    return dict(site.process.parts.preemption.counts.dropped)


async def test_a_pod_of_lower_priority_leaves_and_the_other_gets_its_cards(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high)
    await wait_leaving(site, low)
    assert (await site.pod("high")).annotations[NOMINATED].startswith("n1;")
    assert await site.choose(high) is None
    await site.remove(low)
    await site.clock.run_until(
        lambda: WOKEN in site.process.state.shown.pods[high.metadata.uid].annotations, step_s=0.05
    )
    assert await site.choose(high) == "n1"
    assert await site.bind(high) == ""
    await poll(lambda: not is_nominated(site, high))
    assert (await site.wait_event("Preempted", "low")).message.startswith(f"Preempted by pod {high.metadata.uid}")
    assert (await site.wait_event("PreemptionStarted", "high")).message == (
        "evicting 1 pod of lower priority from node n1"
    )


async def test_quota_that_a_pod_gives_back_who_ends_on_another_node_is_counted_on(site: Site) -> None:
    await site.register("n2", card("n2"))
    ending, low = await run(site, "ending", 3000, 1, node="n2"), await run(site, "low", 9000, 1)
    await limit(site, 12_000)
    await site.client.delete(PODS, ending.name, namespace=ending.namespace)
    await wait_leaving(site, ending)
    high = await submit(site, "high", 10_000, 10)
    await make_room(site, high, "n1", "n2")
    await wait_leaving(site, low)
    await leaves_nobody(site, high)
    assert is_nominated(site, high)
    await site.remove(low)
    await site.remove(ending)
    assert await site.choose(high, "n1", "n2") == "n1"


async def test_only_those_leave_whose_cards_are_needed(site: Site) -> None:
    await site.register("n2", card("n2", memory_mib=4000))
    small = await run(site, "small", 3000, 1)
    large = await run(site, "large", 6000, 1)
    elsewhere = await run(site, "elsewhere", 3000, 1, node="n2")
    await make_room(site, high := await submit(site, "high", 6500, 10), "n1", "n2")
    await wait_leaving(site, large)
    await leaves_nobody(site, small, elsewhere, high)


async def test_a_pod_of_equal_priority_evicts_nobody(site: Site) -> None:
    held = await run(site, "held", 8000, 10)
    assert await site.choose(await submit(site, "other", 8000, 10)) is None
    await leaves_nobody(site, held)
    assert dropped(site) == {"no_victims": 1}


async def test_a_pod_that_preempts_never_evicts_nobody(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    assert await site.choose(await submit(site, "high", 8000, 10, preemptionPolicy="Never")) is None
    await leaves_nobody(site, low)


async def test_one_of_a_group_evicts_nobody(site: Site) -> None:
    """Whether the others of its group find room too is not known."""
    low = await run(site, "low", 8000)
    group = {"podGroupName": "train"}
    assert await site.choose(await submit(site, "high", 8000, 10, schedulingGroup=group)) is None
    await leaves_nobody(site, low)


async def test_a_pod_that_fits_on_no_empty_node_evicts_nobody(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    assert await site.choose(await submit(site, "high", 20000, 10)) is None
    await leaves_nobody(site, low)


async def test_nobody_leaves_while_a_node_that_was_not_offered_has_room(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await site.register("n2", card("n2"))
    assert await site.choose(await submit(site, "high", 8000, 10), "n1") is None
    await leaves_nobody(site, low)
    assert dropped(site) == {"room": 1}


async def test_a_node_that_the_pod_does_not_tolerate_is_no_room(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await site.register("n2", card("n2"))
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    await site.wait_for_node(await site.client.patch(NODES, "n2", {"spec": {"taints": [taint]}}))
    await make_room(site, await submit(site, "high", 8000, 10), "n1")
    await wait_leaving(site, low)


async def test_switched_off_nobody_leaves(empty: Site) -> None:
    await empty.start(DEFAULTS)
    await empty.process.wait_synced()
    await empty.register("n1")
    low = await run(empty, "low", 8000, 1)
    assert await empty.choose(await submit(empty, "high", 8000, 10)) is None
    await leaves_nobody(empty, low)


async def test_a_pod_that_is_refused_again_and_again_gets_room(site: Site) -> None:
    """kube-scheduler tries a pod again every few milliseconds while it has nothing else to do."""
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    for _ in range(20):
        assert await site.choose(high) is None
        await site.clock.advance(0.02)
        await let_answers_arrive()
    await wait_leaving(site, low)
    assert dropped(site) == {}


async def test_a_filter_that_finds_room_drops_the_attempt(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await site.register("n2", card("n2"))
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high, "n1") is None
    assert await site.choose(high, "n1", "n2") == "n2"
    await leaves_nobody(site, low)
    assert site.process.parts.preemption.counts.attempts == 0


async def test_the_room_is_kept_from_pods_of_equal_and_lower_priority(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.remove(low)
    for name, priority in (("lower", 1), ("equal", 10)):
        assert await site.choose(await submit(site, name, 3000, priority)) is None
    assert await site.choose(await submit(site, "beside", 2000, 1)) == "n1"
    assert await site.choose(high) == "n1"


async def test_a_pod_of_higher_priority_takes_the_room_and_the_nomination_ends(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.remove(low)
    assert await site.choose(await submit(site, "highest", 8000, 100)) == "n1"
    await site.clock.run_until(lambda: not is_nominated(site, high))
    await poll(lambda: NOMINATED not in site.process.state.shown.pods[high.metadata.uid].annotations)


async def test_a_pod_whose_node_loses_its_room_is_planned_for_anew_about_a_second_later(site: Site) -> None:
    await site.register("n2", card("n2"))
    first, second = await run(site, "first", 8000, 1), await run(site, "second", 8000, 2, node="n2")
    await make_room(site, high := await submit(site, "high", 8000, 10), "n1", "n2")
    await wait_leaving(site, first)
    await site.annotate("n1", {REGISTER: encode_register((card("n1", healthy=False),))})
    lost_s = site.clock.elapsed_s
    assert await site.choose(high, "n1", "n2") is None
    await site.clock.run_until(lambda: not is_nominated(site, high), step_s=0.05)
    assert site.clock.elapsed_s - lost_s <= PERIOD_S + 0.05
    assert site.process.parts.preemption.counts.ended == {"no_room": 1}
    # What changes a pod makes kube-scheduler try it again.
    await poll(lambda: NOMINATED not in site.process.state.shown.pods[high.metadata.uid].annotations)
    await make_room(site, high, "n1", "n2")
    await wait_leaving(site, second)
    assert (await site.pod("high")).annotations[NOMINATED].startswith("n2;")


async def test_of_two_pods_for_one_card_one_evicts(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    first, second = await submit(site, "first", 8000, 10), await submit(site, "second", 8000, 10)
    assert await site.choose(first) is None
    assert await site.choose(second) is None
    await site.clock.run_until(lambda: is_nominated(site, first), step_s=0.05)
    await wait_leaving(site, low)
    await leaves_nobody(site)
    assert not is_nominated(site, second)
    await site.remove(low)
    assert await site.choose(second) is None
    assert await site.choose(first) == "n1"


async def test_a_more_important_pod_is_nominated_in_the_place_of_another_for_which_one_leaves_already(
    site: Site,
) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, first := await submit(site, "first", 8000, 5))
    await wait_leaving(site, low)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await site.remove(low)
    assert await site.choose(first) is None
    assert await site.choose(high) == "n1"


async def test_a_less_important_pod_that_fits_beside_a_later_one_stays_nominated(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, first := await submit(site, "first", 3000, 5))
    await wait_leaving(site, low)
    await make_room(site, await submit(site, "high", 5000, 10))
    assert is_nominated(site, first)


async def test_a_nomination_ends_when_its_node_takes_no_new_pod_any_more(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.wait_for_node(await site.client.patch(NODES, "n1", {"spec": {"unschedulable": True}}))
    await leaves_nobody(site, high)
    assert site.process.parts.preemption.counts.ended == {"node": 1}


async def test_a_pod_for_which_those_that_end_anyway_make_room_is_not_nominated(site: Site) -> None:
    ending = await run(site, "ending", 8000, 1)
    await site.client.delete(PODS, ending.name, namespace=ending.namespace)
    await wait_leaving(site, ending)
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high) is None
    await leaves_nobody(site, high)
    assert not is_nominated(site, high)
    assert dropped(site).keys() == {"leaving"}


async def test_room_is_given_to_others_when_the_preemptor_is_deleted(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.remove(low)
    other = await submit(site, "other", 8000, 1)
    assert await site.choose(other) is None
    await site.remove(high)
    assert await site.choose(other) == "n1"


async def test_a_victim_that_hangs_holds_its_cards_and_no_other_leaves_for_it(site: Site) -> None:
    await site.register("n2", card("n2"))
    first, second = await run(site, "first", 8000, 1), await run(site, "second", 8000, 2, node="n2")
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high, "n1", "n2")
    await wait_leaving(site, first)
    for _ in range(3):
        assert await site.choose(high, "n1", "n2") is None
        await leaves_nobody(site, second)
    await site.clock.advance(601)
    await poll(lambda: not is_nominated(site, high))
    await leaves_nobody(site, second)


async def test_a_protected_pod_is_asked_and_another_leaves_in_its_place(site: Site) -> None:
    await site.register("n2", card("n2"))
    protected, other = await run(site, "protected", 8000, 1), await run(site, "other", 8000, 2, node="n2")
    site.fail("POST", "/pods/protected/eviction", status=429, times=100)
    assert await site.choose(await submit(site, "high", 8000, 10), "n1", "n2") is None
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(other.metadata.uid), step_s=0.05)
    await leaves_nobody(site, protected)


async def test_a_budget_is_broken_where_nothing_else_helps_and_the_pod_is_told(site: Site) -> None:
    protected = await run(site, "protected", 8000, 1)
    site.fail("POST", "/pods/protected/eviction", status=429, times=100)
    assert await site.choose(high := await submit(site, "high", 8000, 10)) is None
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(protected.metadata.uid), step_s=0.05)
    found = await site.client.get(HOST_PODS, "protected", namespace="default")
    (condition,) = [one for one in found.status.conditions or () if one.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert high.metadata.uid in condition.message


async def test_strictly_a_budget_is_never_broken(empty: Site) -> None:
    await empty.start(replace(ON, preemption_budgets="strict"))
    await empty.process.wait_synced()
    await empty.register("n1")
    protected = await run(empty, "protected", 8000, 1)
    empty.fail("POST", "/pods/protected/eviction", status=429, times=100)
    assert await empty.choose(high := await submit(empty, "high", 8000, 10)) is None
    await leaves_nobody(empty, protected)
    assert not is_nominated(empty, high)
    await empty.clock.run_until(lambda: dropped(empty).get("budget", 0) > 0)


async def test_pods_of_spared_namespaces_stay(empty: Site) -> None:
    await empty.start(replace(ON, preemption_spares="default"))
    await empty.process.wait_synced()
    await empty.register("n1")
    low = await run(empty, "low", 8000, 1)
    assert await empty.choose(await submit(empty, "high", 8000, 10)) is None
    await leaves_nobody(empty, low)


async def test_a_pod_stays_until_it_has_had_its_cards_for_a_while(empty: Site) -> None:
    await empty.start(replace(ON, preemption_min_age_s=120.0))
    await empty.process.wait_synced()
    await empty.register("n1")
    low = await run(empty, "low", 8000, 1)
    assert await empty.choose(await submit(empty, "high", 8000, 10)) is None
    await empty.clock.run_until(lambda: dropped(empty).get("young", 0) > 0, step_s=0.05)
    await leaves_nobody(empty, low)
    await empty.clock.run_until(lambda: empty.process.state.shown.is_terminating(low.metadata.uid), step_s=5)


async def test_a_static_pod_stays(site: Site) -> None:
    await site.submit("low", memory_mib=8000, spec={"priority": 1})
    low = await site.change_pod("low", {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})
    assert await site.choose(low) == "n1"
    assert await site.bind(low) == ""
    await site.wait_bound(low)
    assert await site.choose(await submit(site, "high", 8000, 10)) is None
    await leaves_nobody(site, low)


async def test_a_call_that_claims_another_priority_than_the_pod_has_evicts_nobody(site: Site) -> None:
    low = await run(site, "low", 8000, 5)
    claimed = await submit(site, "claims", 8000, 1)
    claimed = replace_struct(claimed, spec=replace_struct(claimed.spec, priority=1000))
    assert await site.choose(claimed) is None
    await leaves_nobody(site, low)
    assert dropped(site).keys() == {"not_seen"}


async def test_a_call_that_asks_for_something_else_than_the_pod_evicts_nobody(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    claimed, other = await submit(site, "claims", 1000, 10), await submit(site, "other", 8000, 10)
    assert await site.choose(replace_struct(claimed, spec=other.spec)) is None
    await leaves_nobody(site, low)
    assert dropped(site).keys() == {"not_seen"}


async def test_an_eviction_whose_answer_is_lost_is_asked_again_and_counts_once(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("POST", "/pods/low/eviction", lose_answer=True)
    await make_room(site, await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.clock.run_until(lambda: site.process.parts.preemption.counts.victims == 1, step_s=0.05)


async def test_why_a_pod_left_is_told_also_where_the_answer_was_lost_and_it_is_gone_by_then(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    lost = site.fail("POST", "/pods/low/eviction", lose_answer=True)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high)
    await poll(lambda: site.has_happened(lost))
    await site.remove(low)
    await site.clock.run_until(lambda: site.process.parts.preemption.counts.victims == 1, step_s=0.05)
    told = (await site.wait_event("Preempted", "low")).message
    assert told == f"Preempted by pod {high.metadata.uid} of priority 10 on node n1"


def has_told_why(site: Site, pod: Pod) -> bool:
    return pod.metadata.uid in site.process.parts.preemption.evictor.evicted


async def test_why_a_pod_left_is_told_also_where_no_answer_ever_comes(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("POST", "/pods/low/eviction", lose_answer=True)
    site.fail("POST", "/pods/low/eviction", cut=True, times=3)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high)
    await site.clock.run_until(lambda: has_told_why(site, low), step_s=0.5)
    await leaves_nobody(site)
    assert is_nominated(site, high)
    assert high.metadata.uid in (await site.wait_event("Preempted", "low")).message


async def ask_in_vain(site: Site, **fault: Any) -> Pod:
    """Return a pod that was asked to leave without an answer; that it leaves is wanted no more."""
    low = await run(site, "low", 8000, 1)
    unanswered = site.fail("POST", "/pods/low/eviction", **fault)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high)
    await poll(lambda: site.has_happened(unanswered))
    await site.remove(high)
    return low


async def test_why_a_pod_left_is_told_also_where_it_need_not_any_more(site: Site) -> None:
    low = await ask_in_vain(site, lose_answer=True)
    await site.clock.run_until(lambda: has_told_why(site, low), step_s=0.5)
    assert site.process.parts.preemption.counts.victims == 1


async def test_who_was_asked_in_vain_and_leaves_later_has_not_been_preempted(site: Site) -> None:
    low = await ask_in_vain(site, cut=True)
    await site.clock.advance(70)
    await site.remove(low)
    await leaves_nobody(site)
    assert not has_told_why(site, low)


async def begin_to_ask(site: Site, memory_mib: int = 8000, **fault: Any) -> tuple[Pod, Pod]:
    """Return two pods that are to leave for a third; the first is just being asked."""
    lows = [await run(site, name, memory_mib // 2, 1) for name in ("low", "low-too")]
    site.fail("POST", "/eviction", delay_s=0.2, **fault)
    await make_room(site, await submit(site, "high", memory_mib, 10))
    unanswered = site.process.parts.preemption.evictor.unanswered
    await poll(lambda: len(unanswered) == 1)
    asked, other = sorted(lows, key=lambda pod: pod.metadata.uid not in unanswered)
    return asked, other


async def has_event(site: Site, reason: str, pod: Pod) -> bool:
    return reason in [event.reason for event in await site.events(pod.name)]


def hide_pods(site: Site) -> None:
    """Let the scheduler see nothing more of pods."""
    site.fail("GET", r"/pods\?", status=503, times=1000)
    site.server.faults.cut_watches("pods")


async def stop(site: Site) -> None:
    await site.clock.run_until_done(asyncio.create_task(site.stack.aclose()), step_s=0.01)


@pytest.mark.parametrize("fault", [{}, {"lose_answer": True}], ids=["answered", "answer lost"])
async def test_stopping_tells_why_a_pod_leaves_that_was_just_asked_to(site: Site, fault: dict[str, bool]) -> None:
    """binding 5 a write already sent is settled, and no new one starts."""
    asked, other = await begin_to_ask(site, **fault)
    await stop(site)
    assert await has_event(site, "Preempted", asked)
    assert (await site.pod(asked.name)).is_terminating
    assert not (await site.pod(other.name)).is_terminating
    assert not await has_event(site, "Preempted", other)


async def test_stopping_tells_why_a_pod_leaves_though_neither_answer_nor_watch_shows_it(site: Site) -> None:
    """binding 5 as above."""
    asked, _ = await begin_to_ask(site, lose_answer=True)
    hide_pods(site)
    await stop(site)
    assert await has_event(site, "Preempted", asked)


async def test_stopping_tells_why_a_pod_leaves_that_is_not_asked_again_since_no_answer_came(site: Site) -> None:
    asked, _ = await begin_to_ask(site, lose_answer=True)
    hide_pods(site)
    site.fail("POST", "/eviction", cut=True, times=3)
    await site.clock.run_until(lambda: dropped(site).get("failed", 0) > 0, step_s=0.01)
    await stop(site)
    assert await has_event(site, "Preempted", asked)


async def test_stopping_tells_why_a_pod_leaves_whose_eviction_arrives_after_it_was_given_up(site: Site) -> None:
    """binding 2.1 unknown: what was sent may land after it was given up."""
    asked, _ = await begin_to_ask(site, cut=True)
    hide_pods(site)
    looked = site.fail("GET", f"/pods/{asked.name}$")
    stopping = asyncio.create_task(stop(site))
    await poll(lambda: site.has_happened(looked))
    await site.client.delete(PODS, asked.name, namespace=asked.namespace)
    await stopping
    assert await has_event(site, "Preempted", asked)


async def test_stopping_tells_nothing_of_a_pod_that_was_asked_in_vain(site: Site) -> None:
    asked, _ = await begin_to_ask(site, cut=True)
    await stop(site)
    assert not (await site.pod(asked.name)).is_terminating
    assert not await has_event(site, "Preempted", asked)


async def test_stopping_tells_nothing_of_a_pod_that_was_asked_in_vain_and_ended_by_itself(site: Site) -> None:
    asked, _ = await begin_to_ask(site, cut=True)
    await site.change_pod(asked.name, {"status": {"phase": "Succeeded"}}, subresource="status")
    await poll(lambda: asked.metadata.uid not in site.process.state.shown.pods)
    await stop(site)
    assert not await has_event(site, "Preempted", asked)


async def test_stopping_tells_nothing_of_a_pod_that_somebody_else_deleted_before_it_was_asked(site: Site) -> None:
    asked, _ = await begin_to_ask(site)
    hide_pods(site)
    await site.client.delete(PODS, asked.name, namespace=asked.namespace, grace_period_s=0)
    site.fail("GET", f"/pods/{asked.name}$", delay_s=0.4)
    await stop(site)
    assert not await has_event(site, "Preempted", asked)


async def test_stopping_waits_for_no_api_server_that_does_not_say_who_leaves(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """binding 5 for at most its deadline."""
    monkeypatch.setattr(evicting, "CLOSING_S", 0.05)
    asked, _ = await begin_to_ask(site, lose_answer=True)
    hide_pods(site)
    site.fail("GET", f"/pods/{asked.name}$", status=503, times=1000)
    await stop(site)
    assert not await has_event(site, "Preempted", asked)


async def test_an_eviction_that_is_asked_for_again_without_an_answer_is_told_and_counted_once(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("POST", "/pods/low/eviction", lose_answer=True, times=2)
    await make_room(site, await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    began = (await site.pod("low")).metadata.deletion_timestamp
    for _ in range(10):
        await site.clock.advance(1)
        await let_answers_arrive()
    assert (await site.pod("low")).metadata.deletion_timestamp == began
    assert site.process.parts.preemption.counts.victims == 1
    assert [event.count for event in await site.events("low") if event.reason == "Preempted"] == [1]


async def test_room_that_is_kept_after_a_restart_is_given_up_when_its_pod_is_not_tried(site: Site) -> None:
    """Whom the process before had yet to ask is not written, and nobody is asked unless the pod is refused again."""
    asked, staying = await begin_to_ask(site)
    high = await site.pod("high")
    await stop(site)
    await site.client.delete(PODS, asked.name, namespace=asked.namespace, grace_period_s=0)
    await site.start(ON)
    await site.process.wait_synced()
    await poll(lambda: is_nominated(site, high))
    await site.clock.run_until(lambda: not is_nominated(site, high))
    assert await site.choose(await submit(site, "equal", 2000, 10)) == "n1"
    assert not (await site.pod(staying.name)).is_terminating


async def test_ceasing_to_lead_tells_why_a_pod_leaves_that_was_just_asked_to(site: Site) -> None:
    """binding 5 as above."""
    asked, other = await begin_to_ask(site)
    site.process.parts.gate.stop()
    await poll(lambda: has_told_why(site, asked))
    await leaves_nobody(site, other)


async def test_nobody_more_is_asked_to_leave_for_a_pod_that_is_gone(site: Site) -> None:
    _, other = await begin_to_ask(site)
    await site.remove(await site.pod("high"))
    await leaves_nobody(site, other)


async def ask_beside_one_that_leaves(site: Site) -> tuple[Pod, Pod, Pod]:
    """Return two pods as begin_to_ask does, the second of which need not leave any more, and the one that does so."""
    leaver = await run(site, "leaver", 4000, 2)
    asked, other = await begin_to_ask(site, 6000)
    await site.client.delete(PODS, leaver.name, namespace=leaver.namespace)
    await wait_leaving(site, leaver)
    await wait_leaving(site, asked)
    return asked, other, leaver


async def test_who_need_not_leave_any_more_when_the_one_before_was_asked_stays(site: Site) -> None:
    _, other, _ = await ask_beside_one_that_leaves(site)
    await leaves_nobody(site, other)


async def test_the_room_of_those_who_take_long_to_leave_is_kept_though_nobody_more_has_to(site: Site) -> None:
    asked, _, leaver = await ask_beside_one_that_leaves(site)
    for _ in range(45):
        await site.clock.advance(1)
        await let_answers_arrive()
    await site.remove(asked)
    await site.remove(leaver)
    assert await site.choose(await submit(site, "equal", 3000, 10)) is None


async def test_who_is_leaving_already_when_its_turn_comes_is_not_evicted(site: Site) -> None:
    asked, other = await begin_to_ask(site)
    await site.client.delete(PODS, other.name, namespace=other.namespace)
    await wait_leaving(site, asked)
    await leaves_nobody(site)
    assert not await has_event(site, "Preempted", other)


async def leave_in_part(site: Site) -> Pod:
    """Let one of two victims leave, and the other be refused; return the pod that needs both."""
    asked, _ = await begin_to_ask(site)
    site.fail("POST", "/eviction", status=403, times=1000)
    await poll(lambda: dropped(site).get("failed", 0) > 0)
    await site.remove(asked)
    return await site.pod("high")


async def test_what_one_has_left_is_kept_while_another_has_yet_to_be_asked_again(site: Site) -> None:
    await leave_in_part(site)
    assert await site.choose(await submit(site, "equal", 3000, 10)) is None


async def test_what_one_has_left_is_given_to_others_when_another_stays_for_good(site: Site) -> None:
    high = await leave_in_part(site)
    for _ in range(180):
        await site.clock.advance(1)
    await let_answers_arrive()
    await site.clock.run_until(lambda: not is_nominated(site, high))
    assert await site.choose(await submit(site, "equal", 3000, 10)) == "n1"


async def test_a_pod_that_the_watch_shows_late_gets_room_all_the_same(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    pods = site.process.state.shown.pods
    shown = pods.pop(high.metadata.uid)
    assert await site.choose(high) is None
    await site.clock.run_until(lambda: "not_seen" in dropped(site), step_s=0.05)
    pods[high.metadata.uid] = shown
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(low.metadata.uid), step_s=0.05)


async def test_without_the_right_to_evict_the_pod_waits_and_its_nomination_ends(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("POST", "/eviction", status=403, times=1000)
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high) is None
    await site.clock.run_until(lambda: dropped(site).get("failed", 0) > 0, step_s=0.05)
    await site.clock.run_until(lambda: not is_nominated(site, high), step_s=0.05)
    await leaves_nobody(site, low)


async def test_nobody_leaves_for_a_pod_whose_nomination_is_not_written(site: Site) -> None:
    low, high = await run(site, "low", 8000, 1), await submit(site, "high", 8000, 10)
    site.fail("PATCH", "/pods/high", status=403, times=1000)
    assert await site.choose(high) is None
    await site.clock.run_until(lambda: "unwritten" in dropped(site), step_s=0.05)
    await leaves_nobody(site, low)


async def find_room_before_all_were_asked(site: Site) -> tuple[Pod, Pod]:
    """Return a pod that found room when others left by themselves, and a victim that was not asked to leave yet."""
    holders = [await run(site, f"low-{number}", 3000, 1) for number in range(3)]
    site.fail("POST", "/eviction", status=503, times=1)
    high = await submit(site, "high", 6000, 10)
    await make_room(site, high)
    nomination = site.process.state.nominations.find(high.metadata.uid)
    assert nomination is not None
    last = next(one for one in holders if one.metadata.uid in nomination.victims)
    for other in holders:
        if other is not last:
            await site.remove(other)
    assert await site.choose(high) == "n1"
    return high, last


async def test_nobody_more_is_evicted_for_a_pod_that_found_room_meanwhile(site: Site) -> None:
    _, last = await find_room_before_all_were_asked(site)
    await site.clock.advance(30)
    assert not site.process.state.shown.is_terminating(last.metadata.uid)


async def test_who_was_not_asked_to_leave_is_when_the_room_that_was_found_meanwhile_is_lost_again(site: Site) -> None:
    high, last = await find_room_before_all_were_asked(site)
    await site.clock.advance(1)
    site.fail("POST", "/pods/high/binding", status=403)
    assert await site.bind(high) != ""
    await run(site, "urgent", 4000, 20)
    for _ in range(40):
        assert await site.choose(high) is None
        await site.clock.advance(1)
        await let_answers_arrive()
    await wait_leaving(site, last)


async def test_what_failed_is_not_tried_sooner_because_the_pod_is_filtered_again(site: Site) -> None:
    await run(site, "low", 8000, 1)
    site.fail("POST", "/eviction", status=403, times=1000)
    high = await submit(site, "high", 8000, 10)
    began_s = site.clock.elapsed_s
    for _ in range(60):
        assert await site.choose(high) is None
        await site.clock.advance(0.5)
        await let_answers_arrive()
    assert site.clock.elapsed_s - began_s == 30
    assert 2 <= dropped(site)["failed"] <= 5


async def test_a_restart_adopts_what_was_nominated(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high)
    await wait_leaving(site, low)
    await site.restart(ON)
    assert is_nominated(site, high)
    await site.remove(low)
    assert await site.choose(await submit(site, "equal", 3000, 10)) is None
    assert await site.choose(high) == "n1"


async def test_most_plans_at_a_time(empty: Site) -> None:
    await empty.start(replace(ON, preemption_most_plans=1))
    await empty.process.wait_synced()
    await empty.register("n1")
    await empty.register("n2", card("n2"))
    lows = [await run(empty, f"low-{node}", 8000, 1, node=node) for node in ("n1", "n2")]
    first, second = await submit(empty, "first", 8000, 10), await submit(empty, "second", 8000, 10)
    for pod in (first, second):
        assert await empty.choose(pod, "n1", "n2") is None
    await empty.clock.run_until(lambda: is_nominated(empty, first), step_s=0.05)
    await leaves_nobody(empty)
    assert not is_nominated(empty, second)
    leaving = [pod for pod in lows if empty.process.state.shown.is_terminating(pod.metadata.uid)]
    assert len(leaving) == 1
    await empty.remove(leaving[0])
    assert await empty.choose(first, "n1", "n2") is not None
    assert await empty.bind(first, leaving[0].spec.node_name) == ""
    await empty.clock.run_until(lambda: is_nominated(empty, second), step_s=0.2)


async def nominate_for_a_slot(site: Site) -> tuple[Pod, Pod]:
    """Let n1 be free for a pod that nobody tries, and refuse another on n2: who would have to leave that, and it."""
    await site.start(replace(ON, preemption_most_plans=1))
    await site.process.wait_synced()
    await site.register("n1")
    await site.register("n2", card("n2", memory_mib=20000))
    leaver, holder = await run(site, "leaver", 8000, 1), await run(site, "holder", 15000, 1, node="n2")
    await make_room(site, first := await submit(site, "first", 8000, 10))
    await wait_leaving(site, leaver)
    await site.remove(leaver)
    assert await site.choose(await submit(site, "second", 15000, 10), "n2") is None
    return first, holder


async def test_a_pod_that_nobody_tries_while_its_room_is_free_keeps_others_from_nothing(empty: Site) -> None:
    """Its volume is gone: kube-scheduler refuses it before any Filter."""
    first, holder = await nominate_for_a_slot(empty)
    began_s = empty.clock.elapsed_s
    await empty.clock.run_until(lambda: empty.process.state.shown.is_terminating(holder.metadata.uid), step_s=1)
    assert 30 <= empty.clock.elapsed_s - began_s < 120
    assert not is_nominated(empty, first)
    assert empty.process.parts.preemption.counts.ended == {"unclaimed": 1}
    await poll(lambda: NOMINATED not in empty.process.state.shown.pods[first.metadata.uid].annotations)


async def test_a_pod_that_is_tried_now_and_then_keeps_its_free_room(empty: Site) -> None:
    """Of many nodes kube-scheduler offers some only."""
    first, _ = await nominate_for_a_slot(empty)
    await empty.register("n3", card("n3", memory_mib=4000))
    for _ in range(4):
        for _ in range(20):
            await empty.clock.advance(1)
        assert await empty.choose(first, "n3") is None
        assert is_nominated(empty, first)
    await empty.clock.run_until(lambda: not is_nominated(empty, first), step_s=1)


async def test_a_pod_whose_victim_takes_minutes_to_leave_is_not_expected_before(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    for _ in range(120):
        await site.clock.advance(1)
    assert is_nominated(site, high)


async def test_a_pod_whose_victims_are_still_being_asked_stays_nominated(site: Site) -> None:
    await run(site, "low", 8000, 1)
    asked = site.fail("POST", "/eviction", delay_s=1.0)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await poll(lambda: site.has_happened(asked))
    for _ in range(40):
        await site.clock.advance(1)
    assert is_nominated(site, high)


async def test_a_pod_whose_victim_is_not_shown_as_ending_yet_stays_nominated(site: Site) -> None:
    await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    hide_pods(site)
    await make_room(site, high)
    await site.clock.run_until(lambda: site.process.parts.preemption.counts.victims == 1, step_s=0.05)
    for _ in range(40):
        await site.clock.advance(1)
    assert is_nominated(site, high)


async def test_room_that_was_taken_meanwhile_is_unclaimed_since_it_is_free_again(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await wait_leaving(site, low)
    await site.remove(low)
    for _ in range(20):
        await site.clock.advance(1)
    urgent = await run(site, "urgent", 8000, 20)
    await site.client.delete(PODS, urgent.name, namespace=urgent.namespace)
    await wait_leaving(site, urgent)
    await site.clock.advance(2)
    await site.remove(urgent)
    for _ in range(20):
        await site.clock.advance(1)
    assert is_nominated(site, high)


async def test_a_more_important_pod_does_not_wait_for_the_plans_of_others(empty: Site) -> None:
    await empty.start(replace(ON, preemption_most_plans=1))
    await empty.process.wait_synced()
    await empty.register("n1")
    await empty.register("n2", card("n2"))
    for node in ("n1", "n2"):
        await run(empty, f"low-{node}", 8000, 1, node=node)
    await make_room(empty, await submit(empty, "high", 8000, 10), "n1")
    critical = await submit(empty, "critical", 8000, 100)
    assert await empty.choose(critical, "n2") is None
    await empty.clock.run_until(lambda: is_nominated(empty, critical), step_s=0.05)
    equal = await submit(empty, "equal", 8000, 10)
    assert await empty.choose(equal, "n1", "n2") is None
    await empty.clock.advance(5)
    assert not is_nominated(empty, equal)


def explain(site: Site, pod: Pod) -> tuple[str, ...]:
    """What explain tells beside the cards."""
    return run_to_end(explain_pod(Source(site.process.parts), EVERYTHING, pod)).notes


async def test_explain_tells_that_room_is_being_made_and_for_whom_it_is_not_yet(site: Site) -> None:
    await run(site, "low", 8000, 1)
    high = await submit(site, "high", 8000, 10)
    (told,) = explain(site, high)
    assert told.startswith("would fit on n1 if these leave: default/low (priority 1); not evicted because that is")
    await make_room(site, high)
    assert explain(site, high) == ("room is being made for it on n1: it waits until these have left: default/low",)


def change_while_planning(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let something change when it has been found out who would have to leave, before anybody is asked to."""
    plan = PreemptionPlanner.plan

    def plan_and_change(*args: Any) -> Generator[None, None, PreemptionPlan | None]:
        found = yield from plan(*args)
        change()
        return found

    monkeypatch.setattr(PreemptionPlanner, "plan", plan_and_change)


async def test_what_the_first_plan_needs_is_read_ahead(site: Site) -> None:
    await run(site, "low", 8000, 1)
    await site.clock.advance(1)
    await let_answers_arrive()
    index, cluster = site.process.parts.preemption.finder.index, site.process.state.cluster
    assert list(LowestPriorities().catch_up(cluster, "NVIDIA"))
    assert not list(index.catch_up(cluster, "NVIDIA"))


async def refuse_beside_nominated(site: Site) -> tuple[Pod, Pod, Pod]:
    """Let n1 be kept for a pod of 3,000 MiB, for which one leaves it, and refuse another; n2 is held by a third."""
    await site.register("n2")
    leaver, holder = await run(site, "leaver", 8000, 1), await run(site, "holder", 8000, 1, node="n2")
    await make_room(site, await submit(site, "first", 3000, 10), "n1")
    await wait_leaving(site, leaver)
    second = await submit(site, "second", 5000, 10)
    assert await site.choose(second, "n1", "n2") is None
    return leaver, holder, second


async def test_nobody_leaves_while_a_node_has_room_beside_the_pod_that_it_is_kept_for(site: Site) -> None:
    """A node that is not offered makes the attempt wait, and meanwhile one leaves."""
    await site.register("n3")
    await run(site, "important", 8000, 20, node="n3")
    leaver, holder, second = await refuse_beside_nominated(site)
    await site.remove(leaver)
    await leaves_nobody(site, holder)
    assert dropped(site) == {"room": 1}
    assert await site.choose(second, "n1", "n2") == "n1"


async def test_nobody_leaves_for_a_pod_that_fits_beside_another_once_those_have_left_that_leave(site: Site) -> None:
    leaver, holder, second = await refuse_beside_nominated(site)
    await leaves_nobody(site, holder)
    assert dropped(site).keys() == {"leaving"}
    assert explain(site, second) == ()
    await site.remove(leaver)
    await site.clock.run_until(
        lambda: WOKEN in site.process.state.shown.pods[second.metadata.uid].annotations, step_s=0.05
    )
    assert await site.choose(second, "n1", "n2") == "n1"


async def test_where_the_room_of_those_who_left_is_taken_by_another_room_is_made_elsewhere_soon(site: Site) -> None:
    leaver, holder, second = await refuse_beside_nominated(site)
    await site.clock.advance(0.2)
    await let_answers_arrive()
    await site.remove(leaver)
    await run(site, "important", 8000, 20)
    began_s = site.clock.elapsed_s
    assert await site.choose(second, "n1", "n2") is None
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(holder.metadata.uid), step_s=0.1)
    assert site.clock.elapsed_s - began_s < 5


async def test_who_does_not_fit_beside_the_pod_that_a_node_is_kept_for_gets_room_elsewhere(site: Site) -> None:
    _, holder, _ = await refuse_beside_nominated(site)
    third = await submit(site, "third", 8000, 10)
    await make_room(site, third, "n1", "n2")
    await wait_leaving(site, holder)


async def test_who_does_not_fit_beside_the_pod_that_a_free_node_is_kept_for_gets_room_elsewhere(site: Site) -> None:
    leaver, holder, _ = await refuse_beside_nominated(site)
    await site.remove(leaver)
    third = await submit(site, "third", 8000, 10)
    await make_room(site, third, "n1", "n2")
    await wait_leaving(site, holder)


async def test_nobody_leaves_beside_a_pod_that_was_to_end_and_does_not_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, ending = await run(site, "low", 4000, 1), await run(site, "ending", 4000, 1)
    await site.client.delete(PODS, ending.name, namespace=ending.namespace)
    await wait_leaving(site, ending)

    def pass_minutes() -> None:
        site.clock.elapsed_s += 600

    change_while_planning(monkeypatch, pass_minutes)
    assert await site.choose(await submit(site, "high", 9000, 10)) is None
    await leaves_nobody(site, low)


async def test_nobody_leaves_when_another_node_gets_room_while_the_plan_is_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.register("n2")
    low, other = await run(site, "low", 8000, 1), await run(site, "other", 8000, 20, node="n2")
    state = site.process.state
    change_while_planning(monkeypatch, lambda: state.release(other.metadata.uid))
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high, "n1", "n2") is None
    await leaves_nobody(site, low)
    assert dropped(site) == {"room": 1}


async def test_nobody_leaves_a_node_that_is_kept_for_another_pod_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    first, second = await submit(site, "first", 8000, 10), await submit(site, "second", 8000, 10)
    state, victims = site.process.state, frozenset({low.metadata.uid})
    change_while_planning(
        monkeypatch, lambda: nominate(state, first.metadata.uid, "n1", site.clock.clocks.unix, victims)
    )
    assert await site.choose(second) is None
    await leaves_nobody(site, low)
    assert not is_nominated(site, second)


async def test_nobody_leaves_a_node_that_others_have_filled_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    ledger = site.process.state.cluster.ledger
    held = ledger.find(low.metadata.uid)
    assert held is not None
    taken = replace_struct(
        held, uid="urgent", priority=20, shares={"NVIDIA": ((Share(card("n1").id, "NVIDIA", 2000, 0),),)}
    )
    change_while_planning(
        monkeypatch, lambda: None if ledger.find(taken.uid) is taken else site.process.state.cluster.assume(taken)
    )
    assert await site.choose(await submit(site, "high", 9000, 10)) is None
    await leaves_nobody(site, low)


async def plan_while_another_is_asked_to_leave(
    site: Site, monkeypatch: pytest.MonkeyPatch, memory_mib: int
) -> tuple[Pod, Pod]:
    """Let a plan name the first of two pods, and the second be asked to leave meanwhile; return both."""
    victim, other = await run(site, "low", 5000, 1), await run(site, "other", 1000, 2)
    evicted = site.process.parts.preemption.evictor.evicted
    change_while_planning(monkeypatch, lambda: evicted.update({other.metadata.uid: None}))
    assert await site.choose(await submit(site, "high", memory_mib, 10)) is None
    return victim, other


async def test_nobody_leaves_who_need_not_as_another_was_asked_to_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leaves_nobody(site, *await plan_while_another_is_asked_to_leave(site, monkeypatch, 5000))


async def test_who_is_needed_though_another_was_asked_to_leave_by_the_time_of_the_plan_leaves_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, _ = await plan_while_another_is_asked_to_leave(site, monkeypatch, 8000)
    await wait_leaving(site, victim)


async def test_whose_end_the_watch_does_not_show_yet_is_counted_on_while_a_pod_waits(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, _ = await plan_while_another_is_asked_to_leave(site, monkeypatch, 10000)
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(victim.metadata.uid), step_s=0.05)
    await leaves_nobody(site)
    assert is_nominated(site, await site.pod("high"))


async def begin_to_nominate(site: Site, memory_mib: int, *nodes: str) -> Pod:
    """Let a pod be nominated, which the API server takes half a second to write."""
    high = await submit(site, "high", memory_mib, 10)
    site.fail("PATCH", f"/pods/{high.name}$", delay_s=0.5)
    assert await site.choose(high, *nodes) is None
    await poll(lambda: is_nominated(site, high))
    return high


async def test_of_those_who_are_to_leave_one_that_is_gone_by_the_time_when_that_is_written_keeps_no_other(
    site: Site,
) -> None:
    victims = [await run(site, name, 4000, 1) for name in ("low", "low-too")]
    await begin_to_nominate(site, 10000)
    await site.remove(victims[0])
    await wait_leaving(site, victims[1])
    assert dropped(site) == {}


async def test_who_is_bound_only_by_the_time_when_the_nomination_is_written_leaves_all_the_same(site: Site) -> None:
    low = await submit(site, "low", 5000, 1)
    assert await site.choose(low) == "n1"
    await begin_to_nominate(site, 8000)
    assert await site.bind(low) == ""
    await wait_leaving(site, low)
    assert dropped(site) == {}


async def test_who_has_found_room_by_the_time_when_the_nomination_is_written_is_not_planned_for_again(
    site: Site,
) -> None:
    await site.register("n2", card("n2"))
    low, other = await run(site, "low", 5000, 1), await run(site, "other", 1000, 2)
    elsewhere = await run(site, "elsewhere", 8000, 20, node="n2")
    high = await begin_to_nominate(site, 5000, "n1", "n2")
    await site.client.delete(PODS, other.name, namespace=other.namespace)
    await wait_leaving(site, other)
    await site.remove(elsewhere)
    assert await site.choose(high, "n1", "n2") == "n2"
    await leaves_nobody(site, low)
    assert dropped(site) == {}


async def test_nobody_leaves_who_need_not_by_the_time_when_the_nomination_is_written(site: Site) -> None:
    victim, other = await run(site, "low", 5000, 1), await run(site, "other", 1000, 2)
    await begin_to_nominate(site, 5000)
    await site.client.delete(PODS, other.name, namespace=other.namespace)
    await wait_leaving(site, other)
    await leaves_nobody(site, victim)


async def test_nobody_leaves_when_another_node_has_room_by_the_time_when_the_nomination_is_written(site: Site) -> None:
    await site.register("n2")
    low, other = await run(site, "low", 8000, 1), await run(site, "other", 8000, 20, node="n2")
    await begin_to_nominate(site, 8000, "n1", "n2")
    await site.remove(other)
    await poll(lambda: dropped(site) == {"room": 1})
    await leaves_nobody(site, low)


async def test_nobody_leaves_a_node_that_takes_no_new_pod_by_the_time_when_the_nomination_is_written(
    site: Site,
) -> None:
    low = await run(site, "low", 8000, 1)
    await begin_to_nominate(site, 8000)
    await site.wait_for_node(await site.client.patch(NODES, "n1", {"spec": {"unschedulable": True}}))
    await poll(lambda: dropped(site) == {"changed": 1})
    await leaves_nobody(site, low)


async def test_a_pod_that_has_its_room_by_the_time_when_its_nomination_is_written_stays_nominated_until_it_is_bound(
    site: Site,
) -> None:
    await run(site, "low", 5000, 1)
    other = await run(site, "other", 5000, 20)
    high = await begin_to_nominate(site, 5000)
    await site.remove(other)
    assert await site.choose(high) == "n1"
    await poll(lambda: NOMINATED in site.process.state.shown.pods[high.metadata.uid].annotations)
    await let_answers_arrive()
    assert is_nominated(site, high)


async def test_the_room_that_is_free_by_the_time_when_the_nomination_is_written_is_kept(site: Site) -> None:
    low, other = await run(site, "low", 5000, 1), await run(site, "other", 5000, 20)
    high = await begin_to_nominate(site, 5000)
    await site.remove(other)
    await leaves_nobody(site, low)
    assert is_nominated(site, high)


async def test_a_pod_that_fits_beside_a_later_one_by_the_time_when_its_nomination_is_written_stays_nominated(
    site: Site,
) -> None:
    lows = [await run(site, name, 4000, 1) for name in ("low", "low-too")]
    high, highest = await begin_to_nominate(site, 5000), await submit(site, "highest", 5000, 20)
    nomination = site.process.state.nominations.find(high.metadata.uid)
    assert nomination is not None
    other, victim = sorted(lows, key=lambda pod: pod.metadata.uid in nomination.victims)
    nominate(site.process.state, highest.metadata.uid, "n1", site.clock.clocks.unix, frozenset({other.metadata.uid}))
    await wait_leaving(site, victim)
    assert dropped(site) == {}


async def test_nobody_leaves_a_node_that_takes_no_new_pod_by_the_time_of_the_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await run(site, "low", 8000, 1)
    nodes = site.process.state.shown.nodes
    node = nodes["n1"]
    closed = replace_struct(node, spec=replace_struct(node.spec, unschedulable=True))
    change_while_planning(monkeypatch, lambda: nodes.update(n1=closed))
    assert await site.choose(await submit(site, "high", 8000, 10)) is None
    await site.clock.advance(0.2)
    await let_answers_arrive()
    assert not (await site.pod(low.name)).is_terminating


async def test_no_more_plans_are_carried_out_than_may_be_where_another_began_meanwhile(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await empty.start(replace(ON, preemption_most_plans=1))
    await empty.process.wait_synced()
    await empty.register("n1")
    await empty.register("n2", card("n2"))
    low, other = [await run(empty, f"low-{node}", 8000, 1, node=node) for node in ("n1", "n2")]
    first, second = await submit(empty, "first", 8000, 10), await submit(empty, "second", 8000, 10)
    state, victims = empty.process.state, frozenset({other.metadata.uid})
    change_while_planning(
        monkeypatch, lambda: nominate(state, first.metadata.uid, "n2", empty.clock.clocks.unix, victims)
    )
    assert await empty.choose(second, "n1", "n2") is None
    await leaves_nobody(empty, low)
    assert not is_nominated(empty, second)


async def end_slowly(site: Site, pod: Pod) -> None:
    """Delete a pod that takes years to end."""
    await site.client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=10**9)
    await wait_leaving(site, pod)


async def test_a_pod_that_does_not_end_for_minutes_is_not_waited_for(site: Site) -> None:
    await site.register("n2", card("n2"))
    await end_slowly(site, await run(site, "stays", 8000))
    low = await run(site, "low", 8000, 1, node="n2")
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high, "n1", "n2") is None
    await leaves_nobody(site, low)
    await site.clock.run_until(lambda: is_nominated(site, high), step_s=5)
    await wait_leaving(site, low)


async def test_a_pod_that_was_evicted_and_does_not_end_for_minutes_is_not_waited_for_by_others(site: Site) -> None:
    await site.register("n2", card("n2"))
    stays, low = await run(site, "stays", 8000, 1), await run(site, "low", 8000, 2, node="n2")
    await make_room(site, await submit(site, "high", 8000, 10), "n1", "n2")
    await wait_leaving(site, stays)
    await site.clock.advance(120)
    await make_room(site, await submit(site, "highest", 8000, 20), "n1", "n2")
    await wait_leaving(site, low)


async def test_who_fits_beside_a_nominated_pod_when_one_has_ended_that_does_not_for_minutes_gets_room_elsewhere(
    site: Site,
) -> None:
    _, holder, second = await refuse_beside_nominated(site)
    await leaves_nobody(site, holder)
    await site.clock.advance(120)
    await site.clock.run_until(lambda: is_nominated(site, second), step_s=1)
    await wait_leaving(site, holder)


async def test_a_pod_that_does_not_end_for_minutes_is_not_evicted_again(site: Site) -> None:
    stays = await run(site, "stays", 8000)
    await end_slowly(site, stays)
    await site.clock.advance(120)
    assert await site.choose(await submit(site, "high", 8000, 10)) is None
    await site.clock.run_until(lambda: dropped(site) == {"no_victims": 1}, step_s=0.05)
