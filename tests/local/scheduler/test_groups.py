"""Pods that kube-scheduler starts together: what a group holds that was not placed is given back (binding 2.2)."""

import asyncio
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site, card

from gpuloom.wire.keys import WEIGHTS
from gpuloom.wire.objects import Pod

WHOLE_MIB = 10000
GROUP = {"schedulingGroup": {"podGroupName": "train"}}


@pytest.fixture
async def two_cards(site: Site) -> Site:
    """Nodes n1 and n2 with one card each."""
    await site.register("n2", card("n2"))
    return site


async def submit(site: Site, name: str, spec: Any = None) -> Pod:
    return await site.submit(name, memory_mib=WHOLE_MIB, spec=GROUP if spec is None else spec)


async def choose(site: Site, pod: Pod) -> str | None:
    return await site.choose(pod, "n1", "n2")


async def refuse(
    site: Site, *pods: Pod, reason: str = "Unschedulable", message: str = "the group", node: str = ""
) -> None:
    """Say of pods what kube-scheduler says when it does not place them."""
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    for pod in pods:
        body = {"status": {"conditions": [said], "nominatedNodeName": node}}
        await site.wait_for_pod(await site.change_pod(pod.name, body, subresource="status"))


async def fail_once(site: Site) -> list[Pod]:
    """Let a group of three fail for which two cards are free, and time pass until they are given back."""
    pods = [await submit(site, f"member-{number}") for number in range(3)]
    assert [await choose(site, pod) for pod in pods] == ["n1", "n2", None]
    await refuse(site, *pods)
    await site.clock.advance(1)
    assert held(site) == []
    return pods


def held(site: Site) -> list[str]:
    return sorted(one.name for one in site.process.state.cluster.ledger)


async def test_a_group_that_was_not_placed_holds_nothing_a_second_later(two_cards: Site) -> None:
    await fail_once(two_cards)
    assert await choose(two_cards, await submit(two_cards, "single", {})) is not None


async def test_a_group_of_which_nothing_was_said_yet_keeps_its_cards(two_cards: Site) -> None:
    await choose(two_cards, await submit(two_cards, "member"))
    await two_cards.clock.advance(60)
    assert held(two_cards) == ["member"]


async def test_a_group_that_fails_again_with_the_same_words_holds_nothing_two_seconds_later(two_cards: Site) -> None:
    """kube-scheduler writes a condition only when it changes."""
    pods = await fail_once(two_cards)
    await two_cards.clock.advance(30)
    await choose(two_cards, pods[0])
    await two_cards.clock.advance(1.5)
    assert held(two_cards) == ["member-0"]
    await two_cards.clock.advance(0.5)
    assert held(two_cards) == []


async def test_members_of_a_group_that_is_being_bound_keep_their_cards(two_cards: Site) -> None:
    pods = await fail_once(two_cards)
    await two_cards.clock.advance(30)
    for pod in pods[:2]:
        await choose(two_cards, pod)
    assert await two_cards.bind(pods[0], "n1") == ""
    await two_cards.clock.advance(60)
    assert held(two_cards) == ["member-0", "member-1"]


async def filter_while_a_bind_waits(site: Site, again: int) -> "asyncio.Task[str]":
    """Let a Bind of the first member wait for the lock while one of the group is filtered, and time pass."""
    pods = await fail_once(site)
    await site.clock.advance(30)
    await choose(site, pods[0])
    await site.annotate("n1", {"hami.io/mutex.lock": "2026-11-21T12:00:00Z,default,other"})
    waiting = site.start_bind(pods[0], "n1")
    await asyncio.sleep(0.05)
    await choose(site, pods[again])
    for _ in range(3):
        await site.clock.advance(1)
    return waiting


async def test_a_bind_that_waits_for_the_lock_while_its_group_is_filtered_again_goes_on(two_cards: Site) -> None:
    waiting = await filter_while_a_bind_waits(two_cards, 1)
    assert held(two_cards) == ["member-0"]
    assert await two_cards.clock.run_until_done(waiting) == ""


async def test_a_bind_that_waits_for_the_lock_ends_when_its_own_pod_is_filtered_again_and_the_group_fails(
    two_cards: Site,
) -> None:
    waiting = await filter_while_a_bind_waits(two_cards, 0)
    assert held(two_cards) == []
    assert await two_cards.clock.run_until_done(waiting) != ""


async def test_a_group_that_fails_after_a_bind_of_it_holds_nothing(two_cards: Site) -> None:
    pods = await fail_once(two_cards)
    await two_cards.clock.advance(30)
    await choose(two_cards, pods[0])
    two_cards.fail("POST", "/binding", status=403)
    assert await two_cards.bind(pods[0], "n1") != ""
    await two_cards.clock.advance(30)
    assert await choose(two_cards, pods[0]) is not None
    await two_cards.clock.advance(3)
    assert held(two_cards) == []


async def test_a_member_whose_volumes_are_waited_for_keeps_its_cards(two_cards: Site) -> None:
    """kube-scheduler nominates the node before it waits for volumes."""
    pods = await fail_once(two_cards)
    await two_cards.clock.advance(30)
    node = await choose(two_cards, pods[0])
    await refuse(two_cards, pods[0], node=node or "")
    await two_cards.clock.advance(60)
    assert held(two_cards) == ["member-0"]


@pytest.mark.parametrize("labels", [{}, {"scheduling.x-k8s.io/pod-group": "train"}], ids=["alone", "coscheduling"])
async def test_pods_that_kube_scheduler_does_not_group_itself_are_left_alone(
    two_cards: Site, labels: dict[str, str]
) -> None:
    await submit(two_cards, "single", {})
    pod = await two_cards.change_pod("single", {"metadata": {"labels": labels}})
    await choose(two_cards, pod)
    await refuse(two_cards, pod)
    await two_cards.clock.advance(60)
    assert held(two_cards) == ["single"]


async def test_a_gate_that_was_lifted_is_no_failure(two_cards: Site) -> None:
    pod = await submit(two_cards, "member")
    await refuse(two_cards, pod, reason="SchedulingGated")
    await choose(two_cards, pod)
    await two_cards.clock.advance(60)
    assert held(two_cards) == ["member"]


async def woken(site: Site) -> list[str]:
    """Return the names of pods that are put back into kube-scheduler's queue by what has happened."""
    await let_answers_arrive()
    return [name for name in await names(site) if "gpuloom.io/woken" in (await site.pod(name)).annotations]


async def names(site: Site) -> list[str]:
    return sorted(pod.name for pod in site.process.state.shown.pods.values())


async def test_a_group_that_failed_takes_no_cards_until_more_of_it_fit(two_cards: Site) -> None:
    pods = await fail_once(two_cards)
    why = "its group train had cards for 2 of its pods and waits until more fit"
    assert (await two_cards.filter(pods[0], "n1", "n2"))["FailedAndUnresolvableNodes"] == {"n1": why, "n2": why}


async def test_a_group_that_failed_is_tried_again_after_half_a_minute(two_cards: Site) -> None:
    """Its PodGroup may ask for fewer members by now."""
    pods = await fail_once(two_cards)
    await two_cards.clock.advance(30)
    assert await choose(two_cards, pods[0]) is not None


async def test_what_a_group_gives_back_does_not_wake_the_group(two_cards: Site) -> None:
    await fail_once(two_cards)
    assert await woken(two_cards) == []


async def test_what_a_group_gives_back_wakes_another_pod_that_waits(two_cards: Site) -> None:
    pods = [await submit(two_cards, f"member-{number}") for number in range(3)]
    assert [await choose(two_cards, pod) for pod in pods] == ["n1", "n2", None]
    assert await choose(two_cards, await submit(two_cards, "single", {})) is None
    await refuse(two_cards, *pods)
    await two_cards.clock.advance(2)
    assert await woken(two_cards) == ["single"]


async def test_two_groups_that_do_not_fit_do_not_wake_each_other(two_cards: Site) -> None:
    await fail_once(two_cards)
    others = [await submit(two_cards, f"other-{n}", {"schedulingGroup": {"podGroupName": "more"}}) for n in range(3)]
    for pod in others:
        await choose(two_cards, pod)
    await refuse(two_cards, *others)
    await two_cards.clock.advance(2)
    assert await woken(two_cards) == []


async def test_a_member_whose_wishes_cannot_be_read_any_more_keeps_nobody_else_waiting(two_cards: Site) -> None:
    pods = await fail_once(two_cards)
    assert await choose(two_cards, await two_cards.submit("single", memory_mib=WHOLE_MIB, cards=2)) is None
    body = {"metadata": {"annotations": {WEIGHTS: "x"}}}
    await two_cards.wait_for_pod(await two_cards.change_pod(pods[0].name, body))
    await two_cards.register("n3", card("n3"), card("n3", 1))
    assert "single" in await woken(two_cards)


async def test_a_group_is_woken_when_one_more_of_it_fits(two_cards: Site) -> None:
    await fail_once(two_cards)
    await two_cards.register("n3", card("n3"))
    assert await woken(two_cards) == ["member-2"]


async def test_a_group_for_which_a_card_comes_while_it_still_holds_others_is_not_refused_afterwards(
    two_cards: Site,
) -> None:
    pods = [await submit(two_cards, f"member-{number}") for number in range(3)]
    assert [await choose(two_cards, pod) for pod in pods] == ["n1", "n2", None]
    await two_cards.register("n3", card("n3"))
    assert await woken(two_cards) == ["member-2"]
    await refuse(two_cards, *pods)
    await two_cards.clock.advance(1)
    assert held(two_cards) == []
    assert await choose(two_cards, pods[0]) is not None


async def test_a_group_that_fits_is_not_refused_although_the_api_server_did_not_take_its_waking(
    two_cards: Site,
) -> None:
    pods = await fail_once(two_cards)
    fault = two_cards.fail("PATCH", "/api/v1/namespaces/default/pods/member-2", status=403)
    await two_cards.register("n3", card("n3"))
    await poll(lambda: two_cards.has_happened(fault))
    assert await choose(two_cards, pods[0]) is not None


async def test_the_same_group_is_asked_for_again_and_bound_when_all_fit(two_cards: Site) -> None:
    pods = await fail_once(two_cards)
    await two_cards.register("n3", card("n3"))
    await woken(two_cards)
    nodes = [str(await two_cards.choose(pod, "n1", "n2", "n3")) for pod in pods]
    assert [await two_cards.bind(pod, node) for pod, node in zip(pods, nodes, strict=True)] == ["", "", ""]
