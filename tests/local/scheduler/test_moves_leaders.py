"""The scheduler is killed or replaced in the middle of a move: nothing stays closed, and nobody else moves."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site, card
from local.scheduler.test_defragmentation import ON, closed, leaving, pass_minutes, plans, run, wait_long
from local.scheduler.test_leadership import ELECTED, become_leader, change_lease, make_lease, renew

from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING

ELECTED_ON = replace(
    ELECTED,
    defragmentation="on",
    defragmentation_wait_s=ON.defragmentation_wait_s,
    defragmentation_interval_s=ON.defragmentation_interval_s,
)
CARD = card("n1").id


@pytest.fixture
async def leader(empty: Site) -> Site:
    """A replica in charge that moves pods: two on the first node, and room for one of them on each of the others."""
    await make_lease(empty, "here_1")
    await empty.start(ELECTED_ON)
    await empty.process.wait_synced()
    await become_leader(empty)
    for name in ("n1", "n2", "n3"):
        await empty.register(name, card(name))
    for name in ("a", "b"):
        await run(empty, name, "n1")
    for name, node in (("c", "n2"), ("d", "n3")):
        await run(empty, name, node, memory_mib=7000, owner="")
    return empty


async def begin(site: Site) -> None:
    """Let a pod wait long, with a lease that is renewed meanwhile."""
    pod = await site.submit("whole", memory_mib=10000)
    assert await site.choose(pod, "n1", "n2", "n3") is None
    await pass_time(site, 180)


async def pass_time(site: Site, seconds: int) -> None:
    for _ in range(seconds // 6):
        await site.clock.advance(6)
        await renew(site)


async def closes(site: Site) -> None:
    """The cards are closed, and nobody was asked to leave."""
    site.fail("POST", "/eviction", cut=True, times=1000)
    await begin(site)
    await poll(lambda: NODE_MOVING in site.process.state.shown.nodes["n1"].annotations)


async def evicts(site: Site) -> None:
    """A pod was asked to leave, without an answer."""
    site.fail("POST", "/eviction", lose_answer=True)
    site.fail("POST", "/eviction", cut=True, times=1000)
    await begin(site)
    await leaving(site)


async def leaves(site: Site) -> None:
    """A pod was asked to leave, and has not left."""
    await begin(site)
    await leaving(site)


async def is_gone(site: Site) -> None:
    """It has left, and none was made anew."""
    await leaves(site)
    await site.remove(await leaving(site))


async def is_made_anew(site: Site) -> None:
    """The one that was made anew waits."""
    await is_gone(site)
    await site.submit("anew", owner="set")


STEPS = (closes, evicts, leaves, is_gone, is_made_anew)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_the_next_in_charge_opens_what_a_stopped_one_left_closed_and_moves_nobody(
    leader: Site, step: Callable[[Site], Awaitable[None]]
) -> None:
    site = leader
    await step(site)
    left = {pod.name for pod in site.process.state.shown.pods.values() if not pod.is_terminating}
    await site.stack.aclose()
    site.server.faults.clear()
    assert await closed(site, "n1") == (CARD, CARD)
    await site.start(ELECTED_ON)
    await site.process.wait_synced()
    await become_leader(site)
    await pass_time(site, 66)
    await poll(lambda: NODE_MOVING not in site.process.state.shown.nodes["n1"].annotations)
    assert await closed(site, "n1") == ("", "")
    assert {pod.name for pod in site.process.state.shown.pods.values() if not pod.is_terminating} == left
    assert len(site.process.state.nominations) == 0


async def test_who_leads_no_more_ends_its_moves_at_once_and_leaves_the_cards_to_the_next(leader: Site) -> None:
    await leaves(leader)
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: plans(leader) == {"stopped": 1})
    assert await closed(leader, "n1") == (CARD, CARD)


async def test_who_leads_again_opens_what_it_closed_in_an_earlier_term(leader: Site) -> None:
    await leaves(leader)
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: not leader.process.state.charge.is_ours)
    await change_lease(leader, holderIdentity="here_2", leaseTransitions=2)
    await become_leader(leader)
    await pass_time(leader, 66)
    await poll(lambda: NODE_MOVING not in leader.process.state.shown.nodes["n1"].annotations)
    assert await closed(leader, "n1") == ("", "")


async def test_moves_do_not_go_on_after_a_doubt_of_the_lease(leader: Site) -> None:
    """Another may have led meanwhile, and opened the cards or made moves of its own."""
    await leaves(leader)
    await leader.clock.advance(20)
    await poll(lambda: not leader.process.state.charge.is_ours)
    await renew(leader)
    await poll(lambda: leader.process.state.charge.is_ours)
    await leader.remove(await leaving(leader))
    await run(leader, "anew", "n2", "n3")
    await poll(lambda: plans(leader) == {"stopped": 1})
    await let_answers_arrive()
    assert not any(pod.is_terminating for pod in leader.process.state.shown.pods.values())


async def test_cards_of_a_killed_command_are_opened_also_while_the_scheduler_makes_moves(empty: Site) -> None:
    """These may take the better part of an hour."""
    await empty.start(ON)
    await empty.process.wait_synced()
    await empty.register("n1", card("n1"))
    await empty.register("n2", card("n2"), card("n2", 1, memory_mib=1000))
    other = card("n2", 1).id
    await empty.annotate("n2", {NODE_CORDON: other, NODE_DEFRAG: other, NODE_DEFRAG_RENEWED: "once"})
    await run(empty, "a", "n1")
    await run(empty, "b", "n2", owner="")
    await wait_long(empty)
    await leaving(empty)
    await pass_minutes(empty, 4)
    assert NODE_DEFRAG not in empty.process.state.shown.nodes["n2"].annotations
    assert await closed(empty, "n1") == (CARD, CARD)


async def test_cards_of_a_killed_command_are_opened_by_a_scheduler_that_began_since(empty: Site) -> None:
    await empty.start()
    await empty.process.wait_synced()
    await empty.register("n1", card("n1"))
    await empty.annotate("n1", {NODE_CORDON: CARD, NODE_DEFRAG: CARD, NODE_DEFRAG_RENEWED: "once"})
    await pass_minutes(empty, 2)
    await empty.restart()
    await pass_minutes(empty, 2)
    assert await closed(empty, "n1") == (CARD, "")
    await empty.clock.run_until(lambda: NODE_DEFRAG not in empty.process.state.shown.nodes["n1"].annotations)
    assert await closed(empty, "n1") == ("", "")


async def test_who_led_no_more_while_it_opened_cards_of_a_killed_command_opens_them_when_it_leads_again(
    leader: Site,
) -> None:
    await leader.annotate("n1", {NODE_CORDON: CARD, NODE_DEFRAG: CARD, NODE_DEFRAG_RENEWED: "once"})
    read = leader.fail("GET", "/nodes/n1$", delay_s=0.5)
    while not leader.has_happened(read):
        await pass_time(leader, 6)
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: not leader.process.state.charge.is_ours)
    await pass_time(leader, 60)
    await change_lease(leader, holderIdentity="here_2", leaseTransitions=2)
    await become_leader(leader)
    await pass_time(leader, 66)
    await poll(lambda: NODE_DEFRAG not in leader.process.state.shown.nodes["n1"].annotations)
