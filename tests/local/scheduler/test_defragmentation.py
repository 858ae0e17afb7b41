"""The scheduler moves pods by itself, so that one that waits long fits."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, Site, card

from gpuloom.kube import DISRUPTION_BUDGETS, NODES
from gpuloom.kube.cordons import NodeCard, write_cordon
from gpuloom.scheduler.defragmentation.cluster import OWNED_PODS
from gpuloom.scheduler.defragmentation.moving import MoveReport, Moving, make_moves
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING, WEIGHTS
from gpuloom.wire.objects import Pod

ON = replace(
    DEFAULTS, defragmentation="on", defragmentation_wait_s=120.0, defragmentation_interval_s=60.0, preemption="on"
)
SMALL, WHOLE = 3000, 10000


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that moves pods, and two nodes with a card of 10,000 MiB each."""
    await start(empty, ON)
    return empty


async def start(site: Site, settings: SchedulerSettings) -> None:
    await site.start(settings)
    await site.process.wait_synced()
    for name in ("n1", "n2"):
        await site.register(name, card(name))


async def run(site: Site, name: str, node: str, *offered: str, phase: str = "Running", **request: Any) -> Pod:
    """Let a pod get its card and run; ``phase``: what its kubelet tells of it."""
    asked: dict[str, Any] = {"memory_mib": SMALL, "owner": "set"} | request
    pod = await site.submit(name, **asked)
    assert await site.choose(pod, node, *offered) == node
    assert await site.bind(pod, node) == ""
    await site.wait_bound(pod)
    await site.unlock(node)
    return await site.change_pod(name, {"status": {"phase": phase}}, subresource="status")


async def wait_long(site: Site, name: str = "whole", **spec: Any) -> Pod:
    """Let a pod that needs a whole card be refused, and time pass until it has waited long."""
    pod = await site.submit(name, memory_mib=WHOLE, spec=spec)
    assert await site.choose(pod, *sorted(site.process.state.shown.nodes)) is None
    for _ in range(3):
        await site.clock.advance(60)
        await let_answers_arrive()
    return pod


async def fill(site: Site, **spec: Any) -> None:
    """Let two pods run on the first of three nodes, and leave room for one of them on each of the others."""
    await site.register("n3", card("n3"))
    for name in ("a", "b"):
        await run(site, name, "n1", spec=spec)
    for name, node in (("c", "n2"), ("d", "n3")):
        await run(site, name, node, memory_mib=7000, spec=spec)


async def leaving(site: Site) -> Pod:
    """Wait until one pod is evicted."""
    await poll(lambda: len(site.process.state.shown.terminating) == 1)
    (uid,) = site.process.state.shown.terminating
    return site.process.state.shown.pods[uid]


async def closed(site: Site, node: str) -> tuple[str, str]:
    annotations = (await site.client.get(NODES, node)).annotations
    return annotations.get(NODE_CORDON, ""), annotations.get(NODE_MOVING, "")


def plans(site: Site) -> dict[str, int]:
    return dict(site.process.parts.defragmenter.counts.plans)


async def test_pods_move_off_a_node_and_the_one_that_waits_fits_there(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    whole = await wait_long(site)
    left = await leaving(site)
    node, other = ("n1", "n2") if left.name == "a" else ("n2", "n1")
    assert await closed(site, node) == (card(node).id, card(node).id)
    await site.remove(left)
    await run(site, "anew", other, node)
    await poll(lambda: plans(site) == {"made": 1})
    assert await closed(site, node) == ("", "")
    await site.wait_for_node(await site.client.get(NODES, node))
    assert await site.choose(whole, "n1", "n2") == node
    assert site.process.parts.defragmenter.counts.moves == 1
    told = (await site.wait_event("MovesStarted", "whole")).message
    assert told == f"moving 1 pod off node {node} so that it fits"
    told = (await site.wait_event("Moved", left.name)).message
    assert told == f"Evicted to make room on node {node} for pod {whole.metadata.uid}"


async def test_why_a_pod_is_evicted_is_told_before_it_is_gone(site: Site) -> None:
    """It may take its time, and who moves it may be stopped meanwhile."""
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    whole = await wait_long(site)
    left = await leaving(site)
    assert (await site.wait_event("Moved", left.name)).message.endswith(f"for pod {whole.metadata.uid}")
    assert await site.has_pod(left.name)


@pytest.mark.parametrize("fault", [{"cut": True}, {"status": 503}], ids=["no answer", "503"])
async def test_moves_go_on_when_the_api_server_comes_back(site: Site, fault: dict[str, Any]) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site)
    left = await leaving(site)
    node, other = ("n1", "n2") if left.name == "a" else ("n2", "n1")
    lost = site.fail("GET", r"/namespaces/default/pods\?", times=2, **fault)
    await site.remove(left)
    await poll(lambda: site.has_happened(lost))
    await run(site, "anew", other, node)
    await poll(lambda: plans(site) == {"made": 1})


async def test_moves_that_end_for_want_of_a_right_are_told_to_the_pod_that_waits(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site)
    left = await leaving(site)
    site.fail("GET", r"/namespaces/default/pods\?", status=403)
    await site.remove(left)
    await poll(lambda: plans(site) == {"failed": 1})
    await site.wait_event("MovesStopped", "whole")
    assert await closed(site, "n1") == await closed(site, "n2") == ("", "")


async def test_moves_that_cannot_begin_are_told_to_the_pod_that_waits(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    site.fail("PATCH", "/nodes/", status=403, times=1000)
    await wait_long(site)
    await poll(lambda: plans(site) == {"failed": 1})
    await site.wait_event("MovesStopped", "whole")


async def test_nobody_moves_off_cards_to_which_another_came_before_they_were_closed(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2", memory_mib=6000)
    closing = site.fail("PATCH", "/nodes/n1$", delay_s=0.5)
    await wait_long(site)
    await poll(lambda: site.has_happened(closing))
    await run(site, "newcomer", "n1")
    assert (await site.wait_event("MovesStopped", "whole")).message == "moves off node n1 came out otherwise"
    assert not site.process.state.shown.terminating
    assert plans(site) == {"failed": 1}


async def test_a_card_that_is_cordoned_during_moves_stays_closed(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site)
    left = await leaving(site)
    node, other = ("n1", "n2") if left.name == "a" else ("n2", "n1")
    assert await write_cordon(site.client, NodeCard(node, card(node).id), is_closed=True)
    await site.remove(left)
    await run(site, "anew", other)
    await poll(lambda: plans(site) == {"made": 1})
    assert await closed(site, node) == (card(node).id, "")


async def test_of_those_under_one_budget_the_next_moves_when_it_lets_it_go(site: Site) -> None:
    """It does not before the pod that was made anew is ready, which is later than that it runs."""
    await fill(site)
    budget = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 1, "selector": {}}}
    await site.client.create(DISRUPTION_BUDGETS, budget, namespace="default")
    allowed = {"status": {"disruptionsAllowed": 1}}
    await site.client.patch(DISRUPTION_BUDGETS, "all", allowed, namespace="default", subresource="status")
    await wait_long(site)
    first = await leaving(site)
    refused = site.fail("POST", "/eviction", status=429, times=2)
    await site.remove(first)
    await run(site, "anew", "n2")
    await poll(lambda: site.has_happened(refused))
    await site.remove(await leaving(site))
    await run(site, "anew-too", "n3")
    await poll(lambda: plans(site) == {"made": 1})
    assert await closed(site, "n1") == ("", "")


@pytest.mark.parametrize("is_answered", [True, False])
async def test_who_is_stopped_during_moves_ends(site: Site, *, is_answered: bool) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site)
    await leaving(site)
    if not is_answered:
        site.fail("GET", "/nodes/", status=403)
    async with asyncio.timeout(15):
        await site.stack.aclose()


async def test_switched_off_nobody_moves(empty: Site) -> None:
    await start(empty, replace(ON, defragmentation="off"))
    await run(empty, "a", "n1")
    await run(empty, "b", "n2")
    await wait_long(empty)
    assert (plans(empty), len(empty.process.state.shown.terminating)) == ({}, 0)


async def test_nobody_moves_for_a_pod_that_has_not_waited_long(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    assert await site.choose(await site.submit("whole", memory_mib=WHOLE), "n1", "n2") is None
    await site.clock.advance(100)
    await let_answers_arrive()
    assert (plans(site), len(site.process.state.shown.terminating)) == ({}, 0)


async def wait_one_after_another(site: Site, priorities: dict[str, int]) -> None:
    """Let pods that need a whole card be refused, each a second after the last one, and wait long."""
    for name, priority in priorities.items():
        await site.clock.advance(1)
        pod = await site.submit(name, memory_mib=WHOLE, spec={"priority": priority})
        assert await site.choose(pod, "n1", "n2") is None
    await pass_minutes(site, 3)


@pytest.mark.parametrize(
    "priorities", [{"other": 4, "first": 5}, {"first": 5, "other": 5}], ids=["more important", "waits longer"]
)
async def test_the_most_important_pod_has_its_turn_first_and_of_equal_ones_the_one_that_waits_longest(
    site: Site, priorities: dict[str, int]
) -> None:
    await run(site, "a", "n1", spec={"priority": 9})
    await run(site, "b", "n2", spec={"priority": 9})
    await wait_one_after_another(site, priorities)
    told = (await site.wait_event("Moved", (await leaving(site)).name)).message
    assert told.endswith(f"for pod {(await site.pod('first')).metadata.uid}")


async def test_nobody_moves_for_a_pod_that_fits_by_now(site: Site) -> None:
    """It was not told so: it may not be written, or was not offered the node."""
    await run(site, "a", "n1")
    site.fail("PATCH", "/pods/whole", status=503, times=1000)
    assert await site.choose(await site.submit("whole", memory_mib=WHOLE), "n1") is None
    await pass_minutes(site, 3)
    await poll(lambda: bool(plans(site)))
    assert plans(site) == {"fits": 1}


async def test_no_more_pods_move_for_one_than_the_settings_allow(empty: Site) -> None:
    await start(empty, replace(ON, defragmentation_most_moves=1))
    await fill(empty)
    await wait_long(empty)
    await poll(lambda: bool(plans(empty)))
    assert plans(empty) == {"none": 1}


async def test_nobody_moves_off_a_node_that_does_not_take_the_pod_that_waits(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site, nodeSelector={"disk": "fast"})
    await poll(lambda: bool(plans(site)))
    assert plans(site) == {"none": 1}


async def test_a_pod_whose_weights_cannot_be_read_any_more_keeps_no_other_from_its_turn(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    for name in ("unread", "whole"):
        assert await site.choose(await site.submit(name, memory_mib=WHOLE), "n1", "n2") is None
    await site.wait_for_pod(await site.change_pod("unread", {"metadata": {"annotations": {WEIGHTS: "heavy"}}}))
    await pass_minutes(site, 4)
    await leaving(site)


@pytest.mark.parametrize("owner", ["", "set"])
async def test_those_that_nothing_makes_anew_or_that_a_budget_protects_stay(site: Site, owner: str) -> None:
    if owner:
        body = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0, "selector": {}}}
        await site.client.create(DISRUPTION_BUDGETS, body, namespace="default")
    await run(site, "a", "n1", owner=owner)
    await run(site, "b", "n2", owner=owner)
    await wait_long(site)
    await poll(lambda: plans(site) == {"none": 1})
    assert len(site.process.state.shown.terminating) == 0


async def test_pods_of_spared_namespaces_stay(empty: Site) -> None:
    await start(empty, replace(ON, preemption_spares="default"))
    await run(empty, "a", "n1")
    await run(empty, "b", "n2")
    await wait_long(empty)
    await poll(lambda: plans(empty) == {"none": 1})


async def test_nobody_moves_for_one_of_a_group(site: Site) -> None:
    """Whether the others of its group find room too is not known."""
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    await wait_long(site, schedulingGroup={"podGroupName": "train"})
    assert (plans(site), len(site.process.state.shown.terminating)) == ({}, 0)


async def test_nobody_moves_to_where_room_is_made_for_another(site: Site) -> None:
    """The pod that is made anew would be refused there."""
    await run(site, "a", "n1", spec={"priority": 5})
    await run(site, "low", "n2", memory_mib=7000)
    high = await site.submit("high", memory_mib=8000, spec={"priority": 6})
    assert await site.choose(high, "n1", "n2") is None
    await site.clock.run_until(lambda: len(site.process.state.nominations) > 0, step_s=0.05)
    await leaving(site)
    await wait_long(site, priority=1)
    await poll(lambda: plans(site) == {"none": 1})


async def test_nobody_moves_to_a_node_that_is_not_ready(site: Site) -> None:
    await fill(site)
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await site.wait_for_node(await site.client.patch(NODES, "n3", silent, subresource="status"))
    await wait_long(site)
    await poll(lambda: plans(site) == {"none": 1})


async def test_no_further_pod_moves_for_one_that_is_gone(site: Site) -> None:
    await fill(site)
    whole = await wait_long(site)
    left = await leaving(site)
    await site.remove(whole)
    await site.remove(left)
    await run(site, "anew", "n2")
    await poll(lambda: plans(site) == {"stopped": 1})
    assert len(site.process.state.shown.terminating) == 0
    assert await closed(site, "n1") == ("", "")


async def have_cards(site: Site, whole: Pod) -> None:
    """Another node gets a free card, and the pod its share of it."""
    await site.register("n4", card("n4"))
    assert await site.choose(whole, "n4") == "n4"


async def be_bound(site: Site, whole: Pod) -> None:
    """Another scheduler binds the pod, without cards."""
    await site.bind_by_another(whole, "n2", {})
    await site.wait_bound(whole)


@pytest.mark.parametrize("needs_none", [have_cards, be_bound], ids=lambda one: one.__name__)
async def test_no_further_pod_moves_for_one_that_needs_no_room_by_now(
    site: Site, needs_none: Callable[[Site, Pod], Awaitable[None]]
) -> None:
    await fill(site)
    whole = await wait_long(site)
    left = await leaving(site)
    await needs_none(site, whole)
    stays = await site.pod("b" if left.name == "a" else "a")
    await site.remove(left)
    await run(site, "anew", "n2")
    await poll(lambda: plans(site) == {"stopped": 1})
    assert not (await site.pod(stays.name)).is_terminating


async def test_no_further_pod_moves_for_one_for_which_others_are_evicted_meanwhile(site: Site) -> None:
    await fill(site, priority=5)
    whole = await wait_long(site, priority=5)
    left = await leaving(site)
    await site.remove(await site.pod("d"))
    await run(site, "low", "n3", memory_mib=7000)
    assert await site.choose(whole, "n1", "n2", "n3") is None
    await poll(lambda: site.process.state.nominations.find(whole.metadata.uid) is not None)
    await site.remove(left)
    await run(site, "anew", "n2", spec={"priority": 5})
    await poll(lambda: plans(site) == {"stopped": 1})
    assert not {pod.name for pod in site.process.state.shown.pods.values() if pod.is_terminating} - {"low"}


async def test_after_moves_that_came_to_nothing_a_pod_waits_as_long_again(empty: Site) -> None:
    """The pod that was moved for it waits too, and its room would be taken by the next."""
    await start(empty, replace(ON, defragmentation_timeout_s=1.0))
    await fill(empty)
    await wait_long(empty)
    await empty.remove(await leaving(empty))
    await pass_minutes(empty, 2)
    await poll(lambda: plans(empty) == {"failed": 1})
    await pass_minutes(empty, 1)
    assert (plans(empty), len(empty.process.state.shown.terminating)) == ({"failed": 1}, 0)


async def test_cards_that_another_process_left_closed_are_opened_and_others_are_not(empty: Site) -> None:
    await empty.start(DEFAULTS)
    await empty.process.wait_synced()
    await empty.register("n1", card("n1"), card("n1", 1))
    first, second = (one.id for one in (card("n1"), card("n1", 1)))
    await empty.annotate("n1", {NODE_CORDON: f"{first},{second}", NODE_MOVING: second})
    await empty.clock.advance(60)
    await empty.clock.run_until(lambda: NODE_MOVING not in empty.process.state.shown.nodes["n1"].annotations)
    assert await closed(empty, "n1") == (first, "")


def noted(site: Site) -> str:
    return site.process.state.shown.nodes["n1"].annotations.get(NODE_DEFRAG, "")


@pytest.fixture
async def left(empty: Site) -> Site:
    """A node of two cards: the administrator has closed the first, a command the second."""
    await empty.start(DEFAULTS)
    await empty.process.wait_synced()
    await empty.register("n1", card("n1"), card("n1", 1))
    first, second = card("n1").id, card("n1", 1).id
    await empty.annotate("n1", {NODE_CORDON: f"{first},{second}", NODE_DEFRAG: second, NODE_DEFRAG_RENEWED: "once"})
    return empty


async def pass_minutes(site: Site, count: int) -> None:
    for _ in range(count):
        await site.clock.advance(60)
        await let_answers_arrive()


async def test_cards_that_a_command_left_closed_are_opened_when_it_renews_that_no_more(left: Site) -> None:
    await pass_minutes(left, 2)
    assert noted(left)
    await left.clock.run_until(lambda: not noted(left))
    annotations = (await left.client.get(NODES, "n1")).annotations
    assert annotations[NODE_CORDON] == card("n1").id
    assert NODE_DEFRAG_RENEWED not in annotations


async def test_cards_stay_closed_while_a_command_renews_that(left: Site) -> None:
    for number in range(6):
        await pass_minutes(left, 1)
        await left.annotate("n1", {NODE_DEFRAG_RENEWED: str(number)})
    assert noted(left)


async def test_a_command_renews_what_it_closed_until_it_ends(site: Site) -> None:
    await run(site, "a", "n1")
    (pod,), _ = await site.client.list_all(OWNED_PODS)
    moving = Moving([pod], "n1", [card("n1").id], timeout_s=60.0, renewal_s=0.01)
    moves = asyncio.create_task(make_moves(site.client, moving, MoveReport.by_lines(print)))
    renewals = set[str]()

    def are_several() -> bool:
        renewals.add(site.process.state.shown.nodes["n1"].annotations.get(NODE_DEFRAG_RENEWED, ""))
        return len(renewals) > 3

    await poll(are_several)
    assert noted(site) == card("n1").id
    moves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moves
    left = (await site.client.get(NODES, "n1")).annotations
    assert not {NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED} & left.keys()


async def test_a_command_goes_on_renewing_what_it_closed_after_that_was_refused_once(site: Site) -> None:
    await run(site, "a", "n1")
    (pod,), _ = await site.client.list_all(OWNED_PODS)
    moving = Moving([pod], "n1", [card("n1").id], timeout_s=60.0, renewal_s=0.01)
    moves = asyncio.create_task(make_moves(site.client, moving, MoveReport.by_lines(print)))
    await leaving(site)
    refused = site.fail("PATCH", "/nodes/n1", status=403)
    await poll(lambda: site.has_happened(refused))
    said = (await site.client.get(NODES, "n1")).annotations[NODE_DEFRAG_RENEWED]
    await poll(lambda: site.process.state.shown.nodes["n1"].annotations[NODE_DEFRAG_RENEWED] > said)
    moves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moves


async def test_a_node_that_comes_again_is_not_taken_to_have_been_seen_all_the_while(left: Site) -> None:
    await pass_minutes(left, 1)
    said = left.process.state.shown.nodes["n1"].annotations
    await left.client.delete(NODES, "n1")
    await poll(lambda: "n1" not in left.process.state.shown.nodes)
    await pass_minutes(left, 3)
    await left.register("n1", card("n1"), card("n1", 1), annotations=said)
    await pass_minutes(left, 1)
    assert noted(left)


async def test_cards_of_a_command_that_never_renews_stay_closed(left: Site) -> None:
    """One of an earlier release."""
    await left.annotate("n1", {NODE_DEFRAG_RENEWED: None})
    await pass_minutes(left, 6)
    assert noted(left)


async def test_a_node_that_refuses_to_be_written_keeps_no_other_cards_closed(empty: Site) -> None:
    await empty.start(DEFAULTS)
    await empty.process.wait_synced()
    empty.fail("PATCH", "/nodes/n1", status=403, times=1000)
    for name in ("n1", "n2"):
        await empty.register(name, card(name), annotations={NODE_CORDON: card(name).id, NODE_MOVING: card(name).id})
    await empty.clock.advance(60)
    await empty.clock.run_until(lambda: NODE_MOVING not in empty.process.state.shown.nodes["n2"].annotations)
    assert await closed(empty, "n2") == ("", "")
    assert await closed(empty, "n1") == (card("n1").id, card("n1").id)


async def test_for_a_pod_that_was_woken_in_vain_nothing_is_tried_earlier(empty: Site) -> None:
    """Woken, it waits for a moment no more, and then as long as if it had never been."""
    await start(empty, replace(ON, defragmentation_wait_s=180.0))
    leaver = await run(empty, "a", "n1", owner="")
    await run(empty, "b", "n2", owner="")
    whole = await wait_long(empty)
    await poll(lambda: plans(empty) == {"none": 1})
    await empty.remove(leaver)
    await poll(lambda: whole.metadata.uid not in empty.process.state.waiting.unschedulable)
    await empty.clock.advance(60)
    await let_answers_arrive()
    await run(empty, "c", "n1", owner="")
    assert await empty.choose(whole, "n1", "n2") is None
    await empty.clock.advance(60)
    await let_answers_arrive()
    assert plans(empty) == {"none": 1}


async def test_those_that_no_moves_help_keep_no_other_from_its_turn(site: Site) -> None:
    await run(site, "a", "n1")
    await run(site, "b", "n2")
    for name in ("hopeless-1", "hopeless-2", "hopeless-3"):
        assert await site.choose(await site.submit(name, memory_mib=2 * WHOLE), "n1", "n2") is None
    assert await site.choose(await site.submit("whole", memory_mib=WHOLE), "n1", "n2") is None
    for _ in range(8):
        await site.clock.advance(60)
        await let_answers_arrive()
    await leaving(site)


@pytest.mark.parametrize(
    "flags", [{"defragmentation_most_moves": 0}, {"defragmentation_wait_s": 0.0}, {"defragmentation_interval_s": 0.0}]
)
def test_limits_that_mean_nothing_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="--defragmentation"):
        replace(DEFAULTS, **flags)
