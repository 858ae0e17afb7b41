"""Whom preemption would evict, as the API tells it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, card
from local.web.pages import Pages, open_pages
from local.web.scenes import run_pod
from local.web.test_api import NAMESPACES, only_pods_of

from gpuloom.kube import DISRUPTION_BUDGETS, PODS
from gpuloom.local.apiserver.faults import InjectedFault
from gpuloom.local.manifests import pod_manifest
from gpuloom.web import preempting

MIN_AGE_S = 600.0
TOO_YOUNG = "some who would have to leave got their cards less than 10m0s ago (--preemption-min-age)"
ROOM = "nobody would be evicted: it has room on n1"


async def come(pages: Pages, name: str, memory_mib: int, **spec: Any) -> None:
    """Let a pod come that nobody has tried to place yet."""
    made = pod_manifest(name, memory_mib=memory_mib)
    made["spec"] |= spec
    await pages.site.client.create(PODS, made, namespace="default")
    await poll(lambda: any(pod.name == name for pod in pages.site.process.state.shown.pods.values()))


async def protect(pages: Pages, name: str, selector: Mapping[str, Any], *, allowed: int = 0) -> None:
    body = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": selector}}
    await pages.site.client.create(DISRUPTION_BUDGETS, body, namespace="default")
    status = {"status": {"disruptionsAllowed": allowed}}
    await pages.site.client.patch(DISRUPTION_BUDGETS, name, status, namespace="default", subresource="status")


async def test_a_pod_for_which_there_is_room_evicts_nobody(pages: Pages) -> None:
    await come(pages, "small", 1000, priority=5)
    seen = await pages.see("/preempt/default/small")
    assert (seen["headline"], seen["node"]) == (ROOM, "n1")
    assert "victims" not in seen


async def end_for_ever(pages: Pages) -> None:
    """Let a pod that keeps others out be deleted, and hang."""
    assert await run_pod(pages.site, "ends", "n1", memory_mib=9000) == "n1"
    await pages.site.change_pod("ends", {"metadata": {"finalizers": ["test/hangs"]}})
    await pages.site.client.delete(PODS, "ends", namespace="default")
    await poll(lambda: any(pod.is_terminating for pod in pages.site.process.state.shown.pods.values()))


async def test_pods_that_end_already_count_as_gone(pages: Pages) -> None:
    await end_for_ever(pages)
    await come(pages, "big", 9000)
    seen = await pages.see("/preempt/default/big")
    assert seen["headline"] == f"{ROOM} once pods are gone that end already"
    assert [pod["name"] for pod in seen["leaving"]] == ["ends"]


async def test_pods_that_do_not_end_for_minutes_count_as_staying(pages: Pages) -> None:
    await end_for_ever(pages)
    await pages.site.clock.advance(120)
    await come(pages, "big", 9000, priority=5)
    seen = await pages.see("/preempt/default/big")
    assert seen["headline"].startswith("nobody would be evicted: on no node would it have room even if all were gone")


async def test_a_budget_that_lets_one_go_is_told_and_not_broken(pages: Pages) -> None:
    await run_pod(pages.site, "held", "n1", memory_mib=9000)
    await protect(pages, "one", {}, allowed=1)
    await protect(pages, "others", {"matchLabels": {"app": "other"}})
    await come(pages, "big", 9000, priority=5)
    seen = await pages.see("/preempt/default/big")
    assert seen["victims"][0]["budgets"] == ["default/one"]
    assert "broken" not in seen


async def test_pods_that_a_kubelet_runs_from_files_are_no_victims(pages: Pages) -> None:
    await run_pod(pages.site, "static", "n1", memory_mib=9000)
    await pages.site.change_pod("static", {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})
    await come(pages, "big", 9000, priority=5)
    seen = await pages.see("/preempt/default/big")
    assert seen["headline"].startswith("nobody would be evicted: on no node would it have room even if all were gone")


@pytest.fixture
async def young(tmp_path: Path) -> AsyncIterator[Pages]:
    """A pod that has just got its cards keeps another out; pods keep theirs for ten minutes."""
    async with open_pages(tmp_path, replace(DEFAULTS, preemption_min_age_s=MIN_AGE_S)) as pages:
        await run_pod(pages.site, "young", "n1", memory_mib=9000)
        await come(pages, "big", 9000, priority=5)
        yield pages


async def test_a_pod_that_got_its_cards_too_short_a_while_ago_is_no_victim(young: Pages) -> None:
    assert (await young.see("/preempt/default/big"))["headline"] == f"nobody would be evicted: {TOO_YOUNG}"


async def test_a_pod_that_has_had_its_cards_for_long_enough_is_a_victim(young: Pages) -> None:
    await young.site.clock.advance(MIN_AGE_S)
    seen = await young.see("/preempt/default/big")
    assert [victim["pod"]["name"] for victim in seen["victims"]] == ["young"]


async def test_of_pods_that_another_reason_keeps_the_age_is_not_told(young: Pages) -> None:
    await come(young, "meek", 9000, priority=0)
    seen = await young.see("/preempt/default/meek")
    assert seen["headline"].startswith("nobody would be evicted: nobody who holds such cards has a lower priority")


async def test_of_pods_too_young_to_leave_the_budgets_are_looked_up(young: Pages) -> None:
    young.site.fail("GET", "/poddisruptionbudgets", status=403)
    assert (await young.see("/preempt/default/big"))["notLookedAt"].startswith("PodDisruptionBudgets: ")


async def test_an_explanation_names_pods_that_are_too_young_to_leave_and_says_so(tmp_path: Path) -> None:
    settings = replace(DEFAULTS, preemption="on", preemption_min_age_s=MIN_AGE_S)
    async with open_pages(tmp_path, settings) as pages:
        await run_pod(pages.site, "young", "n1", memory_mib=9000)
        await come(pages, "big", 9000, priority=5)
        notes = (await pages.see("/explain/default/big"))["notes"]
    assert f"would fit on n1 if these leave: default/young (priority 0); not evicted because {TOO_YOUNG}" in notes


async def test_only_so_many_pods_are_asked_about(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempting, "MOST_ASKED", 1)
    await pages.site.register("n2", card("n2"), card("n2", 1))
    for name in ("a", "b"):
        await run_pod(pages.site, name, "n2", memory_mib=9000)
    made = pod_manifest("big", cards=2, memory_mib=9000)
    made["spec"]["priority"] = 5
    await pages.site.client.create(PODS, made, namespace="default")
    await poll(lambda: any(pod.name == "big" for pod in pages.site.process.state.shown.pods.values()))
    seen = await pages.see("/preempt/default/big")
    assert len(seen["victims"]) == 2
    assert seen["notLookedAt"] == "PodDisruptionBudgets of some of these pods: there are too many to ask about"


async def test_victims_are_not_named_to_those_who_may_not_see_them_nor_their_budgets(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("secret"))
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    big = pod_manifest("big", memory_mib=9000)
    big |= {"metadata": {"name": "big"}, "spec": {**big["spec"], "priority": 5}}
    await pages.site.client.create(PODS, big, namespace="other")
    budget = {"metadata": {"name": "hidden"}, "spec": {"maxUnavailable": 0, "selector": {}}}
    await pages.site.client.create(DISRUPTION_BUDGETS, budget, namespace="default")
    await poll(lambda: any(pod.name == "big" for pod in pages.site.process.state.shown.pods.values()))
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    seen = await pages.see("/preempt/other/big", who=somebody)
    assert (seen["node"], seen["broken"], seen["victims"][0]["pod"]) == ("n1", 1, {})
    notes = (await pages.see("/explain/other/big", who=somebody))["notes"]
    assert notes[0].startswith("would fit on n1 if these leave: a pod of another namespace (priority 0); not evicted")
    assert "secret" not in msgspec.json.encode([seen, notes]).decode()
    assert "hidden" not in msgspec.json.encode(seen).decode()
    named = await pages.see("/preempt/other/big")
    assert (named["victims"][0]["pod"]["name"], named["victims"][0]["budgets"]) == ("secret", ["default/hidden"])
    assert (await pages.get("/preempt/default/secret", who=somebody))[0] == 403


async def test_what_could_not_be_looked_up_names_nobody_who_may_not_be_seen(pages: Pages) -> None:
    await run_pod(pages.site, "secret", "n1", memory_mib=9000)
    await come(pages, "seen", 9000, priority=5)
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    made = pod_manifest("big", memory_mib=9000)
    made["metadata"]["namespace"] = "other"
    made["spec"]["priority"] = 5
    await pages.site.client.create(PODS, made, namespace="other")
    await poll(lambda: any(pod.name == "big" for pod in pages.site.process.state.shown.pods.values()))
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    fails = InjectedFault("GET", "/namespaces/default/pods/secret", status=500, times=100)
    pages.site.server.faults.add(fails)
    told = (await pages.see("/preempt/other/big", who=somebody))["notLookedAt"]
    assert told == "PodDisruptionBudgets: the API server could not be asked"
    everything = (await pages.see("/preempt/default/seen"))["notLookedAt"]
    assert everything.startswith("PodDisruptionBudgets: get Pod default/secret")
