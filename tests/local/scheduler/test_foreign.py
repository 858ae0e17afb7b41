"""Pods that came past the scheduler and hold devices: their cards are given to nobody (trust T-03)."""

from dataclasses import replace

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, VGPU_NODE, Site, card

from gpuloom.kube import PODS

TAKEN_IN = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}


async def come(site: Site, name="foreign", *, status=TAKEN_IN, limits=None, annotations=None, node="n1"):
    """A pod reaches a kubelet directly, which may have taken it in."""
    limits = {"nvidia.com/gpu": "1"} if limits is None else limits
    spec = {
        "nodeName": node,
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
    }
    labels = {"hami.io/webhook": "ignore"}
    body = {"metadata": {"name": name, "labels": labels, "annotations": annotations or {}}, "spec": spec}
    pod = await site.client.create(PODS, body, namespace="default")
    if status:
        pod = await site.change_pod(name, {"status": status}, subresource="status")
    await let_answers_arrive()
    return pod


async def is_closed(site: Site) -> None:
    await poll(lambda: bool(site.process.state.cluster.closings.on_node("n1")))


async def test_a_foreign_pod_that_was_taken_in_closes_the_cards_of_its_node(site: Site) -> None:
    await come(site)
    await is_closed(site)
    reply = await site.filter(await site.submit())
    assert "CardUnaccounted" in str(reply["FailedAndUnresolvableNodes"])


async def test_cards_open_again_when_the_foreign_pod_is_gone(site: Site) -> None:
    pod = await come(site)
    await is_closed(site)
    await site.remove(pod)
    assert await site.choose(await site.submit()) == "n1"


async def test_cards_open_again_when_the_foreign_pod_is_over(site: Site) -> None:
    pod = await come(site)
    await is_closed(site)
    await site.change_pod("foreign", {"status": {"phase": "Succeeded"}}, subresource="status")
    await poll(lambda: pod.metadata.uid in site.process.state.shown.gone)
    assert await site.choose(await site.submit()) == "n1"


async def test_cards_of_other_nodes_stay_open(site: Site) -> None:
    await site.register("n2", card("n2"))
    await come(site)
    await is_closed(site)
    assert await site.choose(await site.submit(), "n1", "n2") == "n2"


@pytest.mark.parametrize(
    "facts",
    [
        {"status": None},
        {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": "2026-01-01T00:00:00Z"}},
        {"limits": {"cpu": "1"}},
        {"limits": {"nvidia.com/gpu": "0"}},
        {"limits": {"nvidia.com/gpumem": "1000"}},
        {"limits": {"cambricon.com/vmlu": "1"}},
    ],
    ids=["not taken in", "refused by its kubelet", "no cards", "no device", "memory alone", "another vendor's"],
)
async def test_a_pod_that_holds_no_device_closes_nothing(site: Site, facts) -> None:
    await come(site, **facts)
    assert await site.choose(await site.submit()) == "n1"


async def test_a_pod_with_cards_of_ours_closes_nothing(site: Site) -> None:
    pod = await site.submit("ours")
    await site.choose(pod)
    await site.bind(pod)
    await site.unlock()
    await site.wait_for_pod(await site.change_pod("ours", {"status": TAKEN_IN}, subresource="status"))
    assert await site.free_mib("n1") == 7000


async def test_a_counted_pod_whose_annotations_are_taken_away_is_counted_on_and_not_foreign(site: Site) -> None:
    pod = await site.submit("ours")
    await site.choose(pod)
    await site.bind(pod)
    await site.unlock()
    await site.change_pod("ours", {"metadata": {"annotations": {VGPU_NODE: None}}})
    await site.wait_for_pod(await site.change_pod("ours", {"status": TAKEN_IN}, subresource="status"))
    assert await site.free_mib("n1") == 7000


async def test_foreign_pods_close_nothing_where_that_is_switched_off(site: Site) -> None:
    await site.restart(replace(DEFAULTS, unreadable="ignore"))
    await come(site)
    assert await site.choose(await site.submit()) == "n1"


async def test_a_foreign_pod_on_a_node_without_cards_of_ours_is_not_counted(site: Site) -> None:
    await site.register("n2", text="[]")
    await come(site, node="n2")
    await poll(lambda: bool(site.process.state.cluster.closings.on_node("n2")))
    assert site.process.parts.pods.foreign.count() == {}


async def test_a_pod_that_is_placed_on_another_node_than_its_own_is_foreign(site: Site) -> None:
    await come(site, annotations={VGPU_NODE: "n2"})
    await is_closed(site)


async def test_a_foreign_pod_closes_its_cards_after_a_restart_too(site: Site) -> None:
    await come(site)
    await site.restart()
    assert await site.choose(await site.submit()) is None


async def test_foreign_pods_are_counted_by_node(site: Site) -> None:
    await come(site, "one")
    await come(site, "two")
    await poll(lambda: site.process.parts.pods.foreign.count() == {"n1": 2})
