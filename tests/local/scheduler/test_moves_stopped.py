"""A command that is stopped in the middle of a move, or meets others: nothing stays closed that nobody needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from local.asking.conftest import start_gpuloom
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.latewrites import LateClient
from local.scheduler.site import DEFAULTS, Site, card
from local.scheduler.test_defragmentation import WHOLE, leaving, pass_minutes, run, start

from gpuloom.kube import NODES, load_kubeconfig
from gpuloom.kube.client import KubeClient
from gpuloom.kube.cordons import NodeCard, write_cordon
from gpuloom.scheduler.defragmentation.cluster import OWNED_PODS
from gpuloom.scheduler.defragmentation.moving import MoveError, MoveReport, Moving, make_moves
from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING

CARD = card("n1").id


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that moves nobody, two pods on the first of two nodes, and room on the other."""
    await start(empty, DEFAULTS)
    for name in ("a", "b"):
        await run(empty, name, "n1")
    return empty


@pytest.fixture
async def late(site: Site, tmp_path: Path) -> AsyncIterator[LateClient]:
    assert site.client
    async with LateClient(load_kubeconfig(tmp_path / "kubeconfig")) as client:
        yield client


class Command:
    """What ``gpuloom defrag --execute`` does, here; ``told``: what it says."""

    def __init__(self, client: KubeClient, *cards: str) -> None:
        self.client, self.cards = client, cards or (CARD,)
        self.told: list[str] = []
        self.task: asyncio.Task[None]

    async def plan(self, *names: str) -> Moving:
        pods = [await self.client.get(OWNED_PODS, name, namespace="default") for name in names]
        return Moving(pods, "n1", self.cards, timeout_s=60.0)

    async def move(self, *names: str) -> None:
        """Begin to move pods off the first node."""
        self.begin(await self.plan(*names))

    def begin(self, moving: Moving) -> None:
        report = MoveReport.by_lines(self.told.append)
        self.task = asyncio.create_task(make_moves(self.client, moving, report))

    async def fail(self) -> str:
        """Wait until the moves end before the last, and return why."""
        with pytest.raises(MoveError) as caught:
            await self.task
        return str(caught.value)

    async def stop(self) -> None:
        """Do what a signal does."""
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


@pytest.fixture
def command(site: Site) -> Command:
    return Command(site.client)


async def notes(site: Site) -> dict[str, str]:
    keys = (NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING)
    annotations = (await site.client.get(NODES, "n1")).annotations
    return {key: annotations[key] for key in keys if key in annotations}


async def is_leaving(site: Site, name: str) -> bool:
    return (await site.pod(name)).is_terminating


async def leaves(_site: Site) -> None:
    """The pod was asked to leave, and has not left."""


async def is_made_anew(site: Site) -> None:
    """The pod that is made anew waits for its node."""
    await site.remove(await site.pod("a"))
    await site.submit("anew", owner="set")


@pytest.mark.parametrize("step", [leaves, is_made_anew], ids=lambda step: step.__name__)
async def test_stopped_while_it_waits_nobody_else_moves_and_no_card_stays_closed(
    site: Site, command: Command, step: Callable[[Site], Awaitable[None]]
) -> None:
    await command.move("a", "b")
    await leaving(site)
    await step(site)
    await command.stop()
    assert not await is_leaving(site, "b")
    assert await notes(site) == {}


async def test_stopped_while_it_closes_cards_none_stays_closed(site: Site, late: LateClient) -> None:
    """What was sent may arrive when nobody waits for it any more."""
    command, late.held = Command(late), "patch"
    await command.move("a")
    await late.sent.wait()
    command.task.cancel()
    await let_answers_arrive()
    late.arrives.set()
    await late.arrived.wait()
    with pytest.raises(asyncio.CancelledError):
        await command.task
    assert await notes(site) == {}


async def test_stopped_while_it_opens_cards_none_stays_closed(site: Site, command: Command) -> None:
    await run(site, "alone", "n1", owner="")
    await command.move("alone")
    left = await leaving(site)
    slow = site.fail("PATCH", "/nodes/n1", delay_s=0.3)
    await site.remove(left)
    await poll(lambda: site.has_happened(slow))
    await command.stop()
    assert await notes(site) == {}


async def test_stopped_while_it_evicts_a_pod_it_tells_that_it_did(site: Site, late: LateClient) -> None:
    command, late.held = Command(late), "call"
    await command.move("a", "b")
    await late.sent.wait()
    command.task.cancel()
    await let_answers_arrive()
    late.arrives.set()
    with pytest.raises(asyncio.CancelledError):
        await command.task
    assert await is_leaving(site, "a")
    assert command.told == ["pod default/a evicted"]


async def test_stopped_where_it_may_not_open_cards_it_tells_which_stay_closed(site: Site, command: Command) -> None:
    await command.move("a")
    await leaving(site)
    site.fail("PATCH", "/nodes/n1", status=403)
    command.task.cancel()
    assert (await command.fail()).startswith(f"cards of node n1 stay cordoned: {CARD} ")


async def test_an_api_server_that_does_not_answer_before_an_eviction_is_asked_again(
    site: Site, command: Command
) -> None:
    lost = site.fail("GET", r"/namespaces/default/pods\?", cut=True, times=2)
    await command.move("a")
    await poll(lambda: site.has_happened(lost))
    await leaving(site)
    await command.stop()


async def test_nobody_else_moves_when_a_card_was_opened_meanwhile(site: Site, command: Command) -> None:
    """By a person, or by the scheduler for a command that was suspended for minutes."""
    await command.move("a", "b")
    left = await leaving(site)
    await write_cordon(site.client, NodeCard("n1", CARD), is_closed=False)
    await site.remove(left)
    await run(site, "anew", "n2")
    told = f"cards of node n1 were opened meanwhile: {CARD}; 1 of 2 moves were made, and the cards are open again"
    assert await command.fail() == told
    assert not await is_leaving(site, "b")


async def test_moves_off_a_node_that_is_gone_end_with_what_happened_and_leave_nothing_to_open(
    site: Site, command: Command
) -> None:
    await command.move("a", "b")
    left = await leaving(site)
    await site.client.delete(NODES, "n1")
    await site.remove(left)
    await run(site, "anew", "n2")
    told = await command.fail()
    assert "Node n1" in told
    assert told.endswith("; 1 of 2 moves were made, and the cards are open again")


async def test_for_a_pod_that_is_gone_already_nobody_waits_for_another_in_its_place(
    site: Site, command: Command
) -> None:
    """It was made anew between the plan and the yes, and will not be once more."""
    planned = await command.plan("a", "b")
    await site.remove(await site.pod("a"))
    await run(site, "anew", "n2")
    command.begin(planned)
    told = "pod default/a is gone already; 0 of 2 moves were made, and the cards are open again"
    assert await command.fail() == told
    assert not await is_leaving(site, "b")


async def plan_and_let_one_come(site: Site, command: Command) -> Moving:
    """Return a plan to move all pods off a node, to which another has come since."""
    planned = await command.plan("a", "b")
    known = frozenset(pod.metadata.uid for pod in planned.pods)
    await run(site, "newcomer", "n1")
    return replace(planned, known=known)


async def test_nobody_moves_off_cards_to_which_another_has_come_since_the_plan(site: Site, command: Command) -> None:
    """People think before they say yes, and the cards are not closed meanwhile."""
    command.begin(await plan_and_let_one_come(site, command))
    assert await command.fail() == (
        "others have come to cards of node n1 since the plan: default/newcomer; 0 of 2 moves were made, "
        "and the cards are open again"
    )
    assert not await is_leaving(site, "a")
    assert await notes(site) == {}


async def test_who_has_come_since_the_plan_and_is_over_keeps_nobody_from_moving(site: Site, command: Command) -> None:
    planned = await plan_and_let_one_come(site, command)
    await site.change_pod("newcomer", {"status": {"phase": "Succeeded"}}, subresource="status")
    command.begin(planned)
    await leaving(site)
    await command.stop()


async def test_who_has_come_to_another_card_since_the_plan_keeps_nobody_from_moving(site: Site) -> None:
    command = Command(site.client, "GPU-other")
    command.begin(await plan_and_let_one_come(site, command))
    await leaving(site)
    await command.stop()


async def test_a_pod_that_was_made_anew_and_is_done_already_ran(site: Site, command: Command) -> None:
    await command.move("a")
    await site.remove(await leaving(site))
    await run(site, "anew", "n2", phase="Succeeded")
    await command.task
    assert command.told[-1] == "pod default/a runs again on node n2"


async def test_a_pod_of_another_owner_is_not_taken_for_the_one_made_anew(site: Site, command: Command) -> None:
    await site.register("n3", card("n3"))
    await command.move("a")
    await site.remove(await leaving(site))
    await run(site, "a-stranger", "n3", owner="another")
    await run(site, "anew", "n2")
    await command.task
    assert command.told[-1] == "pod default/a runs again on node n2"


async def test_who_was_suspended_leaves_alone_what_another_closed_since(site: Site, command: Command) -> None:
    await command.move("a", "b")
    left = await leaving(site)
    others = {NODE_CORDON: CARD, NODE_DEFRAG: CARD, NODE_DEFRAG_RENEWED: "by another"}
    await site.annotate("n1", others)
    await site.remove(left)
    await run(site, "anew", "n2")
    await command.fail()
    assert not await is_leaving(site, "b")
    assert await notes(site) == others


@pytest.mark.parametrize("cards", [[CARD], ["GPU-other"]], ids=["the same card", "another card"])
async def test_of_two_commands_on_one_node_the_second_moves_nobody(
    site: Site, command: Command, cards: list[str]
) -> None:
    """They would share one renewal, and each would open what the other needs."""
    await command.move("a")
    await leaving(site)
    before = await notes(site)
    second = Command(site.client, *cards)
    await second.move("b")
    assert await second.fail() == (
        f"nobody moves: cards of node n1 are closed for other moves: {CARD}; wait for their end, "
        "or uncordon the cards where nobody makes them"
    )
    assert not await is_leaving(site, "b")
    assert await notes(site) == before
    await command.stop()


async def test_of_two_commands_that_begin_together_one_moves_nobody(
    site: Site, command: Command, late: LateClient
) -> None:
    second, late.held = Command(late), "patch"
    await second.move("b")
    await late.sent.wait()
    await command.move("a")
    await leaving(site)
    before = await notes(site)
    late.arrives.set()
    assert "closed for other moves" in await second.fail()
    assert not await is_leaving(site, "b")
    assert await notes(site) == before
    await command.stop()


async def test_a_command_moves_nobody_off_cards_that_the_scheduler_closed_for_its_moves(
    site: Site, command: Command
) -> None:
    await site.annotate("n1", {NODE_CORDON: CARD, NODE_MOVING: CARD})
    await command.move("a")
    assert "closed for other moves" in await command.fail()
    assert not await is_leaving(site, "a")


async def test_a_card_that_was_closed_before_is_not_opened_at_the_end(site: Site, command: Command) -> None:
    await write_cordon(site.client, NodeCard("n1", CARD), is_closed=True)
    await command.move("a")
    await leaving(site)
    await command.stop()
    assert await notes(site) == {NODE_CORDON: CARD}


async def test_a_card_whose_closing_was_not_answered_is_no_others(site: Site, command: Command) -> None:
    lost = site.fail("PATCH", "/nodes/n1", lose_answer=True)
    await command.move("a")
    await poll(lambda: site.has_happened(lost))
    await leaving(site)
    await command.stop()
    assert await notes(site) == {}


async def test_cards_of_a_killed_command_take_pods_again_after_minutes(site: Site, tmp_path: Path) -> None:
    tokens = ("defrag", "--for", "A40=1", "--execute", "--yes")
    await run(site, "fixed", "n2", memory_mib=1000, owner="")
    process = await start_gpuloom(*tokens, kubeconfig=str(tmp_path / "kubeconfig"))
    await site.remove(await leaving(site))
    process.kill()
    await process.wait()
    whole = await site.submit("whole", memory_mib=WHOLE - 3000)
    await pass_minutes(site, 2)
    assert await site.choose(whole, "n1") is None
    await site.clock.run_until(lambda: NODE_DEFRAG not in site.process.state.shown.nodes["n1"].annotations)
    assert await site.choose(whole, "n1") == "n1"
    assert await notes(site) == {}


async def test_what_a_command_has_renewed_is_not_opened_by_a_scheduler_that_does_not_see_it(site: Site) -> None:
    """Its watch may hang, and another command may have begun since."""
    closed = {NODE_CORDON: CARD, NODE_DEFRAG: CARD, NODE_DEFRAG_RENEWED: "long ago"}
    await site.annotate("n1", closed)
    site.fail("GET", r"/nodes\?", cut=True, times=1000)
    site.server.faults.cut_watches("nodes")
    renewed = {NODE_DEFRAG_RENEWED: "now"}
    await site.client.patch(NODES, "n1", {"metadata": {"annotations": renewed}})
    await pass_minutes(site, 4)
    assert await notes(site) == closed | renewed
