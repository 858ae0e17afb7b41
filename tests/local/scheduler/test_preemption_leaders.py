"""The leader is killed at each step of making room: nobody is evicted twice or in vain, and the pod gets its room."""

import dataclasses
from collections.abc import Awaitable, Callable

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site, card
from local.scheduler.test_leadership import ELECTED, become_leader, change_lease, make_lease
from local.scheduler.test_preemption import NOMINATED, begin_to_ask, is_nominated, leaves_nobody, run, stop, submit

from gpuloom.kube import PODS
from gpuloom.wire.objects import Pod

ON = dataclasses.replace(ELECTED, preemption="on")


@pytest.fixture
async def leader(empty: Site) -> Site:
    """A replica in charge that makes room, with a node of one card and another of a half."""
    await make_lease(empty, "here_1")
    await empty.start(ON)
    await empty.process.wait_synced()
    await become_leader(empty)
    await empty.register("n1")
    await empty.register("n2", card("n2", memory_mib=5000))
    return empty


async def kill_and_lead_again(site: Site) -> None:
    """End the process, and let another one become leader."""
    await site.stack.aclose()
    site.server.faults.clear()
    await site.start(ON)
    await site.process.wait_synced()
    await become_leader(site)


async def wait_annotated(site: Site, pod: Pod) -> None:
    await site.clock.run_until(
        lambda: NOMINATED in site.process.state.shown.pods[pod.metadata.uid].annotations, step_s=0.05
    )


async def just_refused(_site: Site, _pod: Pod) -> None:
    """Killed before anybody looks."""


async def nominated_in_memory(site: Site, pod: Pod) -> None:
    """Killed while the annotation is on its way."""
    site.fail("PATCH", "/pods/high", delay_s=5, cut=True)
    await site.clock.run_until(lambda: is_nominated(site, pod), step_s=0.05)


async def nominated_and_nobody_asked(site: Site, pod: Pod) -> None:
    site.fail("POST", "/eviction", delay_s=5, cut=True, times=10)
    await wait_annotated(site, pod)


async def the_first_asked(site: Site, pod: Pod) -> None:
    await site.clock.run_until(lambda: is_nominated(site, pod), step_s=0.01)
    await site.clock.run_until(lambda: any(_leaving(site)), step_s=0.01)


async def all_asked(site: Site, pod: Pod) -> None:
    await wait_annotated(site, pod)
    await site.clock.run_until(lambda: all(_leaving(site)), step_s=0.05)


async def all_gone(site: Site, pod: Pod) -> None:
    await all_asked(site, pod)
    for name in ("low-a", "low-b"):
        await site.remove(await site.pod(name))
    await let_answers_arrive()


def _leaving(site: Site) -> list[bool]:
    lows = [pod for pod in site.process.state.shown.pods.values() if pod.name.startswith("low-")]
    return [pod.is_terminating for pod in lows]


STEPS = (just_refused, nominated_in_memory, nominated_and_nobody_asked, the_first_asked, all_asked, all_gone)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_a_new_leader_goes_on(leader: Site, step: Callable[[Site, Pod], Awaitable[None]]) -> None:
    site = leader
    lows = [await run(site, name, 4500, 1) for name in ("low-a", "low-b")]
    bystander = await run(site, "bystander", 4500, 1, node="n2")
    high = await submit(site, "high", 9000, 10)
    assert await site.choose(high, "n1", "n2") is None
    await step(site, high)
    await kill_and_lead_again(site)
    await poll(lambda: high.metadata.uid in site.process.state.shown.pods)
    node = await site.choose(await site.pod("high"), "n1", "n2")
    if node is None:
        await site.clock.run_until(lambda: all(_leaving(site)), step_s=0.05)
        for low in lows:
            await site.remove(low)
        equal = await submit(site, "equal", 2000, 10)
        assert await site.choose(equal, "n1") is None
        node = await site.choose(await site.pod("high"), "n1", "n2")
    assert node == "n1"
    assert not (await site.pod(bystander.name)).is_terminating
    told = [event for low in lows for event in await site.events(low.name) if event.reason == "Preempted"]
    assert all((event.count or 1) == 1 for event in told)


async def lead_again_with_one_gone(site: Site) -> tuple[Pod, Pod]:
    """Be killed when the first of two was asked to leave; return the pod that needs both gone, and who stays."""
    asked, staying = await begin_to_ask(site)
    await stop(site)
    await site.client.delete(PODS, asked.name, namespace=asked.namespace, grace_period_s=0)
    await kill_and_lead_again(site)
    high = await site.pod("high")
    await poll(lambda: is_nominated(site, high))
    return high, staying


async def test_a_new_leader_keeps_room_for_which_only_some_have_left(leader: Site) -> None:
    """An equal pod that is tried first would have what the one that left gave free, and that would be in vain."""
    high, staying = await lead_again_with_one_gone(leader)
    assert await leader.choose(await submit(leader, "equal", 2000, 10)) is None
    assert await leader.choose(await leader.pod("high")) is None
    await leader.clock.run_until(lambda: leader.process.state.shown.is_terminating(staying.metadata.uid), step_s=0.05)
    await leader.remove(staying)
    await poll(lambda: staying.metadata.uid not in leader.process.state.shown.pods)
    assert await leader.choose(await leader.pod(high.name)) == "n1"


async def test_a_new_leader_asks_nobody_to_leave_before_the_nominated_pod_is_refused_again(leader: Site) -> None:
    _, staying = await lead_again_with_one_gone(leader)
    await leaves_nobody(leader, staying)


async def test_who_ceases_to_lead_evicts_nobody_any_more(leader: Site) -> None:
    low = await run(leader, "low", 9000, 1)
    high = await submit(leader, "high", 9000, 10)
    assert await leader.choose(high) is None
    await change_lease(leader, holderIdentity="there_1")
    await poll(lambda: not leader.process.state.charge.is_ours)
    await leader.clock.advance(5)
    await let_answers_arrive()
    assert not (await leader.pod("low")).is_terminating
    assert low.metadata.uid
    assert not is_nominated(leader, high)


async def test_in_a_new_term_nobody_leaves_for_a_pod_that_was_refused_in_an_earlier_one(leader: Site) -> None:
    """binding 5 term: which nodes kube-scheduler would offer by now nobody knows."""
    low, high = await run(leader, "low", 9000, 1), await submit(leader, "high", 9000, 10)
    assert await leader.choose(high) is None
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: not leader.process.state.charge.is_ours)
    await change_lease(leader, holderIdentity="here_2", leaseTransitions=2)
    await poll(lambda: not leader.process.state.charge.obstacle)
    await become_leader(leader)
    await leaves_nobody(leader, low)
    assert not is_nominated(leader, high)
    assert await leader.choose(high) is None
    await leader.clock.run_until(lambda: is_nominated(leader, high), step_s=0.05)


async def test_who_doubts_its_lease_evicts_nobody(leader: Site) -> None:
    await run(leader, "low", 9000, 1)
    high = await submit(leader, "high", 9000, 10)
    leader.fail("PATCH", "/pods/high", delay_s=1)
    assert await leader.choose(high) is None
    await leader.clock.run_until(lambda: is_nominated(leader, high), step_s=0.01)
    await leader.clock.advance(20)
    await wait_annotated(leader, high)
    await let_answers_arrive()
    assert leader.process.state.charge.obstacle
    assert not (await leader.pod("low")).is_terminating
