"""Making room beside PodDisruptionBudgets: what they allow is known before anybody is asked to leave."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import Site, card
from local.scheduler.test_preemption import (
    ON,
    begin_to_nominate,
    change_while_planning,
    dropped,
    leaves_nobody,
    make_room,
    run,
    submit,
    wait_leaving,
)

from gpuloom.kube import DISRUPTION_BUDGETS, HOST_PODS
from gpuloom.wire.budgets import DisruptionBudget
from gpuloom.wire.objects import Pod

WEB = {"app": "web"}


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that makes room, and two nodes with one card each."""
    await start(empty)
    return empty


async def start(site: Site, **settings: Any) -> None:
    await site.start(replace(ON, **settings))
    await site.process.wait_synced()
    await site.register("n1")
    await site.register("n2", card("n2"))


async def run_labelled(site: Site, name: str, priority: int, node: str) -> Pod:
    """Let a pod of the web get its cards."""
    pod = await run(site, name, 8000, priority, node=node)
    await site.change_pod(name, {"metadata": {"labels": WEB}})
    await poll(lambda: site.process.state.shown.victim_labels[pod.metadata.uid] == WEB)
    return pod


async def protect(site: Site, allowed: int, name: str = "web") -> None:
    """Make a budget for the web that lets so many pods go."""
    known = site.process.state.shown.budgets.allowed
    body = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": WEB}}}
    await site.client.create(DISRUPTION_BUDGETS, body, namespace="default")
    status = {"status": {"disruptionsAllowed": allowed}}
    await site.client.patch(DISRUPTION_BUDGETS, name, status, namespace="default", subresource="status")
    await poll(lambda: known.get(f"default/{name}") == allowed)


async def test_a_protected_pod_is_not_even_asked_where_another_may_leave(site: Site) -> None:
    protected, other = await run_labelled(site, "protected", 1, "n1"), await run(site, "other", 8000, 2, node="n2")
    await protect(site, 0)
    asked = site.fail("POST", "/pods/protected/eviction", status=500)
    await make_room(site, await submit(site, "high", 8000, 10), "n1", "n2")
    await wait_leaving(site, other)
    await leaves_nobody(site, protected)
    assert not site.has_happened(asked)


async def test_a_pod_whose_budget_lets_it_go_is_evicted_by_the_eviction_api(site: Site) -> None:
    low = await run_labelled(site, "low", 1, "n1")
    await run(site, "more-important", 8000, 2, node="n2")
    await protect(site, 1)
    await make_room(site, await submit(site, "high", 8000, 10), "n1", "n2")
    await wait_leaving(site, low)
    found = await site.client.get(HOST_PODS, "low", namespace="default")
    assert not [one for one in found.status.conditions or () if one.type == "DisruptionTarget"]


async def test_when_a_budget_is_gone_its_pods_may_leave_again(site: Site) -> None:
    low = await run_labelled(site, "low", 1, "n1")
    await run(site, "more-important", 8000, 2, node="n2")
    await protect(site, 0)
    await site.client.delete(DISRUPTION_BUDGETS, "web", namespace="default")
    await poll(lambda: not site.process.state.shown.budgets.allowed)
    await make_room(site, await submit(site, "high", 8000, 10), "n1", "n2")
    await wait_leaving(site, low)


async def test_strictly_nobody_is_asked_whom_a_budget_protects(empty: Site) -> None:
    await start(empty, preemption_budgets="strict")
    pods = [await run_labelled(empty, f"low-{node}", 1, node) for node in ("n1", "n2")]
    await protect(empty, 0)
    asked = empty.fail("POST", "/eviction", status=500)
    assert await empty.choose(await submit(empty, "high", 8000, 10), "n1", "n2") is None
    await empty.clock.run_until(lambda: dropped(empty).get("budget", 0) > 0, step_s=0.05)
    await leaves_nobody(empty, *pods)
    assert not empty.has_happened(asked)


async def test_strictly_nobody_is_asked_whom_a_budget_has_come_to_protect_by_the_time_of_the_plan(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(empty, preemption_budgets="strict")
    low = await run_labelled(empty, "low", 1, "n1")
    await run(empty, "other", 8000, 20, node="n2")
    await protect(empty, 1)
    allowed = empty.process.state.shown.budgets.allowed
    change_while_planning(monkeypatch, lambda: allowed.update({"default/web": 0}))
    asked = empty.fail("POST", "/eviction", status=500)
    assert await empty.choose(await submit(empty, "high", 8000, 10), "n1", "n2") is None
    await leaves_nobody(empty, low)
    assert not empty.has_happened(asked)


async def test_strictly_nobody_is_asked_whom_a_budget_protects_that_came_by_the_time_of_the_plan(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(empty, preemption_budgets="strict")
    low = await run_labelled(empty, "low", 1, "n1")
    await run(empty, "other", 8000, 20, node="n2")
    budget = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": WEB}}},
        DisruptionBudget,
    )
    change_while_planning(monkeypatch, lambda: empty.process.state.shown.budgets.apply(budget))
    asked = empty.fail("POST", "/eviction", status=500)
    assert await empty.choose(await submit(empty, "high", 8000, 10), "n1", "n2") is None
    await leaves_nobody(empty, low)
    assert not empty.has_happened(asked)


async def test_strictly_nobody_is_asked_whom_a_budget_has_come_to_protect_by_the_time_when_the_nomination_is_written(
    empty: Site,
) -> None:
    """The Eviction API asks no budget about pods that are pending."""
    await start(empty, preemption_budgets="strict")
    await run(empty, "other", 8000, 20, node="n2")
    waits = await submit(empty, "waits", 8000, 1)
    await empty.wait_for_pod(await empty.change_pod("waits", {"metadata": {"labels": WEB}}))
    await protect(empty, 1)
    assert await empty.choose(waits) == "n1"
    await begin_to_nominate(empty, 8000, "n1", "n2")
    empty.process.state.shown.budgets.allowed["default/web"] = 0
    await poll(lambda: dropped(empty) == {"changed": 1})
    await leaves_nobody(empty, waits)


async def test_who_has_a_budget_is_asked_before_others_who_would_leave_in_vain_were_it_refused(site: Site) -> None:
    free, guarded = await run(site, "free", 4000, 2), await run(site, "guarded", 4000, 1)
    await run(site, "other", 8000, 3, node="n2")
    await site.change_pod("guarded", {"metadata": {"labels": WEB}})
    await protect(site, 1)
    site.fail("POST", "/pods/guarded/eviction", status=429, times=100)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high, "n1", "n2")
    await site.clock.run_until(lambda: site.process.parts.preemption.counts.victims > 0, step_s=0.05)
    await leaves_nobody(site, free, guarded)


async def test_a_budget_is_not_broken_because_the_api_server_has_too_much_to_do(site: Site) -> None:
    guarded = await run_labelled(site, "guarded", 1, "n1")
    await run(site, "other", 8000, 20, node="n2")
    await protect(site, 0)
    site.fail("POST", "/eviction", status=429, retry_after_s=1000, times=100)
    await make_room(site, await submit(site, "high", 8000, 10), "n1", "n2")
    await leaves_nobody(site, guarded)


async def test_strictly_a_pod_is_spared_that_has_its_cards_and_is_not_bound_yet(empty: Site) -> None:
    """The Eviction API asks no budget about pods that are pending."""
    await start(empty, preemption_budgets="strict")
    await run_labelled(empty, "low", 2, "n2")
    waits = await submit(empty, "waits", 8000, 1)
    await empty.wait_for_pod(await empty.change_pod("waits", {"metadata": {"labels": WEB}}))
    await protect(empty, 0)
    assert await empty.choose(waits) == "n1"
    assert await empty.choose(await submit(empty, "high", 8000, 10), "n1", "n2") is None
    await empty.clock.run_until(lambda: dropped(empty).get("budget", 0) > 0, step_s=0.05)
    await leaves_nobody(empty, waits)


async def test_a_pod_with_two_budgets_is_deleted_because_the_eviction_api_cannot_count_them(site: Site) -> None:
    for node in ("n1", "n2"):
        await run_labelled(site, f"low-{node}", 1, node)
    await protect(site, 1)
    await protect(site, 1, "other")
    asked = site.fail("POST", "/eviction", status=500)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high, "n1", "n2")
    await site.clock.run_until(lambda: site.process.parts.preemption.counts.victims == 1, step_s=0.05)
    assert not site.has_happened(asked)


async def find_who_leaves_past_budgets(site: Site) -> tuple[Pod, Pod]:
    """Return a pod of two budgets, which is to be deleted, and one for which it is."""
    low = await run_labelled(site, "low", 1, "n1")
    await run(site, "other", 8000, 20, node="n2")
    for name in ("web", "web-too"):
        await protect(site, 1, name)
    return low, await submit(site, "high", 8000, 10)


async def is_told_to_leave(site: Site, name: str) -> bool:
    found = await site.client.get(HOST_PODS, name, namespace="default")
    return "DisruptionTarget" in [one.type for one in found.status.conditions or ()]


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/pods/low/status"), ("DELETE", "/pods/low")])
async def test_a_pod_that_was_made_anew_under_its_name_is_not_deleted_past_its_budgets(
    site: Site, method: str, path: str
) -> None:
    low, high = await find_who_leaves_past_budgets(site)
    sent = site.fail(method, path, delay_s=0.2)
    await make_room(site, high, "n1", "n2")
    await poll(lambda: site.has_happened(sent))
    await site.remove(low)
    await site.submit("low")
    await leaves_nobody(site, low)
    assert not await is_told_to_leave(site, "low")


async def test_a_pod_is_not_deleted_past_its_budgets_for_one_that_is_gone(site: Site) -> None:
    low, high = await find_who_leaves_past_budgets(site)
    told = site.fail("PATCH", "/pods/low/status", delay_s=0.2)
    await make_room(site, high, "n1", "n2")
    await poll(lambda: site.has_happened(told))
    await site.remove(high)
    await leaves_nobody(site, low)


async def test_a_pod_is_not_told_that_it_leaves_past_its_budget_for_one_that_is_gone(site: Site) -> None:
    guarded = await run_labelled(site, "guarded", 1, "n1")
    await run(site, "other", 8000, 20, node="n2")
    await protect(site, 0)
    asked = site.fail("POST", "/pods/guarded/eviction", status=429, delay_s=0.2)
    high = await submit(site, "high", 8000, 10)
    await make_room(site, high, "n1", "n2")
    await poll(lambda: site.has_happened(asked))
    await site.remove(high)
    await leaves_nobody(site, guarded)
    assert not await is_told_to_leave(site, "guarded")


async def test_nobody_leaves_before_all_budgets_are_listed(empty: Site) -> None:
    empty.fail("GET", "/poddisruptionbudgets", status=403, times=1000)
    await start(empty)
    low, other = await run(empty, "low", 8000, 1), await run(empty, "other", 8000, 1, node="n2")
    assert await empty.choose(await submit(empty, "high", 8000, 10), "n1", "n2") is None
    await leaves_nobody(empty, low, other)
    assert not empty.process.parts.preemption.counts.attempts
