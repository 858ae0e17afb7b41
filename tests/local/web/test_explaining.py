"""What an explanation says of other nodes to a pod that has its own, and to one that still waits."""

from typing import Any

import pytest
from local.scheduler.site import card
from local.scheduler.test_groups import fail_once
from local.web.pages import Pages
from local.web.scenes import run_pod

from gpuloom.kube import NODES
from gpuloom.local.manifests import pod_manifest

AFFINITY = "kube-scheduler: node(s) didn't match Pod's node affinity/selector"
TAINTED = "kube-scheduler: node(s) had untolerated taint {gpu: only}"
TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


async def change_node(pages: Pages, name: str, body: Any, *, subresource: str = "") -> None:
    await pages.site.wait_for_node(await pages.site.client.patch(NODES, name, body, subresource=subresource))


async def tell_cpu(pages: Pages, cpu: str, *nodes: str) -> None:
    """Let nodes say what they can give beside cards, as a kubelet does."""
    has = {"nvidia.com/gpu": "10", "cpu": cpu, "memory": "8Gi", "pods": "110"}
    for node in nodes:
        await change_node(pages, node, {"status": {"allocatable": has, "capacity": has}}, subresource="status")


def ask_cpu(cpu: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "cpu": cpu}
    return {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]}


async def test_other_nodes_refuse_a_bound_pod_for_the_same_reasons_as_before_it_was_bound(pages: Pages) -> None:
    for name in ("n2", "n3"):
        await pages.site.register(name, labels={"disk": "ssd"} if name == "n3" else {})
    await change_node(pages, "n1", {"metadata": {"labels": {"disk": "ssd"}}})
    await change_node(pages, "n3", {"spec": {"taints": [TAINT]}})
    await run_pod(pages.site, "picky", "n1", spec={"nodeSelector": {"disk": "ssd"}})
    seen = await pages.see("/explain/default/picky")
    causes = {node["name"]: node.get("causes", []) for node in seen["nodes"]}
    assert causes == {"n1": [], "n2": [AFFINITY], "n3": [TAINTED]}
    assert {one["text"] for one in seen["refused"]} == {AFFINITY, TAINTED}
    page = await pages.read("/pods/default/picky")
    assert ("did not offer" in page, "{gpu: only}" in page, seen.get("host")) == (False, True, None)


async def test_what_a_bound_pod_requests_of_its_own_node_is_not_in_its_way(pages: Pages) -> None:
    await pages.site.register("n2")
    await tell_cpu(pages, "4", "n1")
    await tell_cpu(pages, "2", "n2")
    await run_pod(pages.site, "hungry", "n1", spec=ask_cpu("3"))
    seen = await pages.see("/explain/default/hungry")
    assert {node["name"]: node["fits"] for node in seen["nodes"]} == {"n1": True, "n2": False}
    assert (seen["fitting"], seen["refused"][0]["text"]) == (1, "kube-scheduler: Insufficient cpu")


async def test_most_that_is_free_is_said_of_those_nodes_that_lack_nothing_else(pages: Pages) -> None:
    await pages.site.register("n2")
    await tell_cpu(pages, "4", "n1")
    await tell_cpu(pages, "64", "n2")
    await change_node(pages, "n2", {"spec": {"taints": [TAINT]}})
    await pages.site.submit("wide", spec=ask_cpu("8"))
    seen = await pages.see("/explain/default/wide")
    told = "it asks for 8 CPUs, and the node with most free of those that lack nothing else has 4 of 4 CPUs"
    assert seen["host"]["shortage"] == [told]


async def test_the_largest_card_is_that_of_a_node_that_is_open_to_the_pod(pages: Pages) -> None:
    await pages.site.register("n2", card("n2", memory_mib=40000))
    await change_node(pages, "n1", {"metadata": {"labels": {"disk": "ssd"}}})
    await pages.site.submit("large", memory_mib=50000, spec={"nodeSelector": {"disk": "ssd"}})
    told = "asks for 50,000 MiB of one card; the largest card that it accepts on a node open to it has 10,000"
    assert told in (await pages.see("/explain/default/large"))["notes"]
    (waiting,) = (await pages.see("/pending"))["items"]
    assert f"; it {told}:" in waiting["headline"]


async def test_a_node_that_was_left_out_for_no_reason_that_is_seen_says_so_of_a_bound_pod_too(pages: Pages) -> None:
    await pages.site.register("n2")
    await run_pod(pages.site, "plain", "n1")
    (refused,) = (await pages.see("/explain/default/plain"))["refused"]
    assert "for a reason that is gone or that gpuloom does not see" in refused["text"]


async def test_a_node_may_be_left_out_because_kube_scheduler_had_enough_others(pages: Pages) -> None:
    others = [f"other-{number}" for number in range(99)]
    for name in ("n2", *others):
        await pages.site.register(name)
    await pages.site.choose(await pages.site.submit("plain"), "n1", *others)
    (refused,) = (await pages.see("/explain/default/plain"))["refused"]
    assert "at its last try: it had enough others, or" in refused["text"]


async def test_a_member_of_a_group_that_does_not_fit_waits_for_the_others_although_it_fits_itself(pages: Pages) -> None:
    await pages.site.register("n2")
    await fail_once(pages.site)
    told = "its group train had cards for 2 of its pods and waits until more fit; apart from that it fits on "
    explained = await pages.see("/explain/default/member-0")
    pending = {one["pod"]["name"]: one for one in (await pages.see("/pending"))["items"]}["member-0"]
    assert (explained["outcome"], pending.get("fits")) == ("held back", None)
    assert told in explained["headline"]
    assert told in pending["headline"]


async def taint(pages: Pages, name: str, **other: str) -> None:
    await change_node(pages, name, {"spec": {"taints": [TAINT | other]}})


async def tell_remedies(pages: Pages, **spec: Any) -> list[str]:
    await pages.site.submit("waits", spec=spec)
    seen = await pages.see("/explain/default/waits")
    assert f"it {seen['remedies'][0]['text']}" in seen["why"]
    return [one["text"] for one in seen["remedies"]]


async def test_a_taint_that_keeps_a_pod_away_is_told_to_be_tolerated(pages: Pages) -> None:
    await taint(pages, "n1")
    assert await tell_remedies(pages) == ["would fit on n1 if the pod tolerated gpu=only:NoSchedule"]


async def test_a_pod_that_its_selector_pins_to_a_tainted_node_may_tolerate_the_taint(pages: Pages) -> None:
    await pages.site.register("n2", labels={"disk": "ssd"})
    await taint(pages, "n2", effect="NoExecute")
    assert await tell_remedies(pages, nodeSelector={"disk": "ssd"}) == [
        "would fit on n2 if the pod tolerated gpu=only:NoExecute",
        "would fit on n1 if labelled disk=ssd (kubectl label node n1 disk=ssd), or without the pod's nodeSelector",
    ]


async def test_nodes_of_the_same_taints_are_told_together(pages: Pages) -> None:
    for name in ("n2", "n3", "n4"):
        await pages.site.register(name)
    for name, value in (("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "")):
        await taint(pages, name, value=value)
    assert await tell_remedies(pages) == [
        "would fit on n2 or 1 other if the pod tolerated gpu=b:NoSchedule",
        "would fit on n4 if the pod tolerated gpu:NoSchedule",
        "would fit on n1 if the pod tolerated gpu=a:NoSchedule",
    ]


CORDON = {"spec": {"unschedulable": True}}


async def test_a_node_that_is_cordoned_is_told_to_be_uncordoned_and_takes_the_pod_then(pages: Pages) -> None:
    for name in ("n1", "n2", "n3"):
        if name != "n1":
            await pages.site.register(name)
        await change_node(pages, name, CORDON)
    await taint(pages, "n1")
    told = await tell_remedies(pages)
    assert told == ["would fit on n2 or 1 other if uncordoned (kubectl uncordon n2)"]
    await change_node(pages, "n2", {"spec": {"unschedulable": None}})
    assert (await pages.see("/explain/default/waits"))["headline"].endswith("it fits on 1 of 3 nodes: n2")


async def test_a_cordoned_node_is_not_told_to_be_uncordoned_whose_cards_would_not_do(pages: Pages) -> None:
    await change_node(pages, "n1", CORDON)
    await pages.site.submit("waits", memory_mib=20_000)
    seen = await pages.see("/explain/default/waits")
    assert [one["text"] for one in seen.get("remedies", ()) if "uncordon" in one["text"]] == []


@pytest.mark.parametrize("lacks", ["a toleration", "a label", "an uncordon"])
async def test_a_node_that_is_not_ready_is_not_told_to_take_the_pod(pages: Pages, lacks: str) -> None:
    if lacks == "a toleration":
        await taint(pages, "n1")
    if lacks == "an uncordon":
        await change_node(pages, "n1", CORDON)
    down = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await change_node(pages, "n1", down, subresource="status")
    await pages.site.submit("waits", spec={"nodeSelector": {"disk": "ssd"}} if lacks == "a label" else {})
    assert "remedies" not in await pages.see("/explain/default/waits")


LABELLED = "if labelled disk=ssd (kubectl label node n1 disk=ssd), or "


@pytest.mark.parametrize(
    ("labels", "condition", "told"),
    [
        ({}, {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}, LABELLED),
        ({}, {"key": "disk", "operator": "Exists"}, LABELLED.replace("ssd", "true")),
        ({"disk": "nvme"}, {"key": "disk", "operator": "NotIn", "values": ["nvme"]}, ""),
        ({"disk": "hdd"}, {"key": "disk", "operator": "In", "values": ["ssd"]}, ""),
        ({}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}, ""),
    ],
    ids=["one of some", "any", "not this", "has another", "of the host"],
)
async def test_node_affinity_that_keeps_a_pod_away_is_told_with_the_label_that_would_do(
    pages: Pages, labels: dict[str, str], condition: dict[str, Any], told: str
) -> None:
    await change_node(pages, "n1", {"metadata": {"labels": labels}})
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [condition]}]}
    }
    remedies = await tell_remedies(pages, affinity={"nodeAffinity": required})
    assert remedies == [f"would fit on n1 {told}without the pod's required node affinity"]


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({}, "if labelled disk=ssd and pool=a (kubectl label node n1 disk=ssd pool=a)"),
        ({"pool": "b"}, "without the pod's nodeSelector and required node affinity"),
    ],
    ids=["lacks both", "has another"],
)
async def test_selector_and_affinity_that_both_keep_a_pod_away_are_told_together(
    pages: Pages, labels: dict[str, str], told: str
) -> None:
    await change_node(pages, "n1", {"metadata": {"labels": labels}})
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    remedies = await tell_remedies(pages, nodeSelector={"pool": "a"}, affinity={"nodeAffinity": required})
    assert remedies == [f"would fit on n1 {told}"]


async def test_where_several_things_keep_a_pod_away_all_are_told_to_be_changed(pages: Pages) -> None:
    taint = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
    await change_node(pages, "n1", {"spec": {"unschedulable": True, "taints": [taint]}})
    (told,) = await tell_remedies(pages, nodeSelector={"pool": "a"})
    assert told == (
        "would fit on n1 if uncordoned (kubectl uncordon n1), if the pod tolerated gpu=only:NoSchedule "
        "and if labelled pool=a (kubectl label node n1 pool=a)"
    )


async def test_a_label_that_a_node_has_otherwise_is_not_told_to_be_changed(pages: Pages) -> None:
    await change_node(pages, "n1", {"metadata": {"labels": {"disk": "nvme"}}})
    told = await tell_remedies(pages, nodeSelector={"disk": "nmve"})
    assert told == ["would fit on n1 without the pod's nodeSelector (did you mean disk=nvme?)"]


TRY_AGAIN = "still waits: kube-scheduler has to try it again; by now it fits on the only node, n1"


async def test_a_refused_pod_that_fits_by_now_is_told_to_wait_for_its_next_try(pages: Pages) -> None:
    holder = await pages.site.submit("holder", memory_mib=9000)
    await pages.site.choose(holder)
    assert await pages.site.choose(await pages.site.submit("waits")) is None
    await pages.site.remove(holder)
    seen = await pages.see("/explain/default/waits")
    assert (seen["outcome"], seen["headline"]) == ("fits", TRY_AGAIN)
    assert TRY_AGAIN in await pages.read("/pods/default/waits")
    assert (await pages.see("/pending"))["items"][0]["headline"].endswith(": kube-scheduler has to try it again")


async def test_a_pod_that_no_node_was_offered_for_is_told_that_of_the_last_try(pages: Pages) -> None:
    await pages.site.submit("waits")
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    changed = await pages.site.change_pod("waits", {"status": {"conditions": [said]}}, subresource="status")
    await pages.site.wait_for_pod(changed)
    told = "At its last try kube-scheduler refused every node before it asked gpuloom"
    assert (await pages.see("/explain/default/waits"))["why"] == f"pod default/waits {TRY_AGAIN}. {told}."


async def test_a_refused_pod_is_told_of_a_node_that_was_not_offered_then_and_would_do_by_now(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("holder", memory_mib=9000))
    await pages.site.choose(await pages.site.submit("waits"), "n1")
    await pages.site.register("n2")
    told = "would fit on n2 by now, not offered at the last try: kube-scheduler has to try it again"
    seen = await pages.see("/explain/default/waits")
    assert (seen["outcome"], seen["notes"][0]) == ("does not fit", told)
    assert f"It {told}" in seen["why"]


async def test_a_pod_that_was_never_tried_is_not_told_of_a_last_try(pages: Pages) -> None:
    await pages.site.submit("waits")
    seen = await pages.see("/explain/default/waits")
    assert seen["headline"] == "waits: kube-scheduler has not asked about it yet; it fits on the only node, n1"


async def test_whether_a_pod_would_fit_says_nothing_of_waiting(pages: Pages) -> None:
    _, seen = await pages.post("/fits?namespace=default", pod_manifest("p", memory_mib=3000))
    assert seen["explanation"]["headline"] == "fits on the only node, n1"


async def test_the_page_of_a_bound_pod_counts_the_others_that_it_fits_on_without_its_own(pages: Pages) -> None:
    await pages.site.register("n2")
    await run_pod(pages.site, "runs", "n1", "n2")
    page = await pages.read("/pods/default/runs")
    assert ("<h2>Where else it fits</h2>" in page, "<caption>Other fitting nodes, best first</caption>" in page) == (
        True,
        True,
    )


@pytest.mark.parametrize(
    ("amounts", "told"),
    [
        ({"memory_mib": 20_000}, "; it asks for 20,000 MiB of one card; the largest card that it accepts has 10,000:"),
        ({"cards": 2}, "; it asks for 2 cards of one node; the largest node has 1:"),
        ({"memory_mib": 8000}, ":"),
    ],
    ids=["too large", "too many", "in use"],
)
async def test_the_list_of_waiting_pods_says_what_no_node_could_ever_hold(
    pages: Pages, amounts: Any, told: str
) -> None:
    await pages.site.choose(await pages.site.submit("holder"))
    await pages.site.submit("waits", **amounts)
    (row,) = (await pages.see("/pending"))["items"]
    assert row["headline"].startswith(f"does not fit on the only node{told} 1 ")
    assert f"does not fit on the only node{told[:-1]}" in await pages.read("/pending")


async def test_a_pod_with_cards_that_takes_the_cpu_is_named(pages: Pages) -> None:
    await tell_cpu(pages, "4", "n1")
    await run_pod(pages.site, "hungry", "n1", spec=ask_cpu("3"))
    assert await tell_remedies(pages, **ask_cpu("2")) == [
        "would fit on n1 with 1 CPU at most",
        "would fit on n1 without default/hungry",
    ]
