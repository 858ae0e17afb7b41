"""A pod for which others left loses that room to a more important one, which may find its cards elsewhere after all."""

from dataclasses import replace

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site, card
from local.scheduler.test_preemption import (
    NOMINATED,
    ON,
    WOKEN,
    dropped,
    explain,
    is_nominated,
    leaves_nobody,
    make_room,
    run,
    submit,
    wait_leaving,
)

from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.preemption.flow import PERIOD_S
from gpuloom.web.views.preempting import VictimFacts, find_prospect
from gpuloom.web.views.source import Source
from gpuloom.wire.objects import Pod


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that makes room, and two nodes with one card each; nobody less important than 50 may leave n2."""
    await empty.start(replace(ON, preemption_most_plans=2))
    await empty.process.wait_synced()
    await empty.register("n1")
    await empty.register("n2", card("n2"))
    await run(empty, "important", 8000, 50, node="n2")
    return empty


async def let_one_leave(site: Site) -> tuple[Pod, Pod]:
    """Let a pod be nominated for n1, and return it and the one who was asked to leave for it."""
    low = await run(site, "low", 8000, 1)
    await make_room(site, first := await submit(site, "first", 8000, 5))
    await wait_leaving(site, low)
    return first, low


async def take_over(site: Site) -> tuple[Pod, Pod]:
    """Let a more important pod be nominated for the room of another for whom somebody leaves; return both."""
    first, low = await let_one_leave(site)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await site.remove(low)
    return first, high


async def choose_lower(site: Site) -> str | None:
    return await site.choose(await submit(site, "lower", 3000, 0), "n1")


def ended(site: Site) -> dict[str, int]:
    return dict(site.process.parts.preemption.counts.ended)


async def has_room_again(site: Site, pod: Pod) -> None:
    assert await choose_lower(site) is None
    await poll(lambda: WOKEN in site.process.state.shown.pods[pod.metadata.uid].annotations)
    assert await site.choose(await site.pod(pod.name)) == "n1"


async def test_who_lost_its_room_has_it_again_when_the_other_finds_cards_elsewhere(site: Site) -> None:
    first, high = await take_over(site)
    assert await site.choose(first) is None
    await site.remove(await site.pod("important"))
    # By its nomination it would go to n1.
    assert await site.choose(high, "n2") == "n2"
    await has_room_again(site, first)


async def test_who_lost_its_room_has_it_again_when_the_other_is_deleted(site: Site) -> None:
    first, high = await take_over(site)
    await site.remove(high)
    await has_room_again(site, first)


async def test_who_lost_its_room_has_it_again_when_the_other_was_to_be_bound_and_is_deleted(site: Site) -> None:
    first, low = await let_one_leave(site)
    await site.remove(low)
    high = await submit(site, "high", 8000, 10)
    assert await site.choose(high) == "n1"
    await leaves_nobody(site)
    await site.remove(high)
    await has_room_again(site, first)


async def test_who_waits_behind_another_is_not_forgotten_while_that_takes_minutes(site: Site) -> None:
    first, high = await take_over(site)
    for _ in range(8):
        # It would lose its free room without a try.
        assert await site.choose(first) is None
        await site.clock.advance(15)
        await let_answers_arrive()
        assert await site.choose(high, "n2") is None
    # Planned for anew once, and then whenever it was refused.
    assert dropped(site)["changed"] == 1
    await site.remove(high)
    assert await choose_lower(site) is None


async def test_who_lost_its_room_is_planned_for_anew(site: Site) -> None:
    await site.register("n3", card("n3"))
    other = await run(site, "other", 8000, 2, node="n3")
    low = await run(site, "low", 8000, 1)
    await make_room(site, first := await submit(site, "first", 8000, 5), "n1", "n3")
    await wait_leaving(site, low)
    await make_room(site, await submit(site, "high", 8000, 10), "n1")
    await site.clock.run_until(lambda: site.process.state.shown.is_terminating(other.metadata.uid), step_s=0.1)
    assert (await site.pod("first")).annotations[NOMINATED].startswith("n3;")
    await site.remove(other)
    assert await site.choose(first, "n1", "n3") == "n3"


async def test_who_lost_its_room_waits_no_more_once_the_other_is_bound_there(site: Site) -> None:
    first, high = await take_over(site)
    assert await site.choose(high) == "n1"
    assert await site.bind(high, "n1") == ""
    await site.wait_bound(high)
    bound_s = site.clock.elapsed_s
    await site.clock.run_until(lambda: not is_nominated(site, first), step_s=0.1)
    assert site.clock.elapsed_s - bound_s <= PERIOD_S + 0.1
    assert ended(site) == {"bound": 1, "no_room": 1}
    await poll(lambda: NOMINATED not in site.process.state.shown.pods[first.metadata.uid].annotations)


async def test_who_lost_room_for_which_nobody_was_asked_yet_waits_no_more(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("PATCH", "/pods/first", delay_s=5)
    await make_room(site, first := await submit(site, "first", 8000, 5))
    await make_room(site, await submit(site, "high", 8000, 10))
    assert not is_nominated(site, first)
    await wait_leaving(site, low)
    assert ended(site) == {"superseded": 1}


async def test_who_lost_its_room_before_the_answer_of_those_who_leave_has_it_again(site: Site) -> None:
    low = await run(site, "low", 8000, 1)
    site.fail("POST", "/pods/low/eviction", delay_s=5)
    await make_room(site, first := await submit(site, "first", 8000, 5))
    await poll(lambda: len(site.process.parts.preemption.evictor.unanswered) == 1)
    await make_room(site, high := await submit(site, "high", 8000, 10))
    await site.remove(low)
    await site.remove(high)
    await has_room_again(site, first)


async def test_who_lost_its_room_has_it_again_though_another_process_leads_by_then(site: Site) -> None:
    first, high = await take_over(site)
    await site.restart(ON)
    await leaves_nobody(site)
    assert await site.choose(first) is None
    await site.remove(high)
    await has_room_again(site, first)


async def test_explain_tells_that_the_room_went_to_a_more_important_pod(site: Site) -> None:
    first, _ = await take_over(site)
    told = "the room made for it on n1 is lost: a more important pod has it, or the cards changed"
    assert told in explain(site, first)


async def test_preempt_tells_that_the_room_is_made_for_others(site: Site) -> None:
    first, _ = await take_over(site)
    prospect = run_to_end(find_prospect(Source(site.process.parts), first, VictimFacts()))
    assert prospect.why == "room is being made for others on all nodes that it is offered"


async def test_others_may_be_asked_to_leave_though_pods_wait_behind_the_more_important(site: Site) -> None:
    """Only those count as plans for whom somebody is asked to leave."""
    await site.register("n3", card("n3"))
    other = await run(site, "other", 8000, 2, node="n3")
    await take_over(site)
    await make_room(site, await submit(site, "third", 8000, 4), "n3")
    await wait_leaving(site, other)
