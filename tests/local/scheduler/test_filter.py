"""Filter: a decision is a reservation, and nothing is written (binding 1 and 2.2)."""

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest
from local.scheduler.site import DEFAULTS, REGISTER, VGPU_NODE, Site, card

from gpuloom.local.manifests import pod_manifest
from gpuloom.wire.objects import Pod


async def test_a_pod_that_fits_gets_one_node(site: Site) -> None:
    """scheduler 8.4 off: without leader election this process is in charge."""
    pod = await site.submit()
    assert await site.filter(pod, "n1") == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }


async def test_filter_writes_nothing_on_the_pod(site: Site) -> None:
    """binding 1 Filter writes nothing."""
    pod = await site.submit()
    await site.choose(pod)
    assert (await site.pod()).metadata.resource_version == pod.metadata.resource_version


async def test_what_was_decided_is_taken_at_once(site: Site) -> None:
    """binding 2.2 assume."""
    await site.choose(await site.submit("a", memory_mib=7000))
    assert await site.choose(await site.submit("b", memory_mib=7000)) is None


async def test_a_refusal_names_the_reason_of_every_node(site: Site) -> None:
    pod = await site.submit(memory_mib=20000)
    reply = await site.filter(pod, "n1", "n2")
    assert reply["FailedAndUnresolvableNodes"] == {"n1": "1/1 CardInsufficientMemory", "n2": "node unregistered"}


async def test_a_refusal_lets_kube_scheduler_try_to_evict_where_that_is_wanted(empty: Site) -> None:
    """D-53 failed."""
    await empty.start(dataclasses.replace(DEFAULTS, refused_nodes="failed"))
    await empty.process.wait_synced()
    reply = await empty.filter(await empty.submit(), "n1")
    assert (reply["FailedNodes"], reply["FailedAndUnresolvableNodes"]) == ({"n1": "node unregistered"}, None)


async def test_a_refusal_is_an_event_per_reason_and_a_sum(site: Site) -> None:
    await site.choose(await site.submit(memory_mib=20000), "n1")
    await site.wait_event("FilteringFailed")
    messages: set[str] = set()
    while len(messages) < 2:
        messages = {event.message for event in await site.events()}
    assert messages == {"1 nodes CardInsufficientMemory(n1)", "no available node, 1 nodes do not meet"}


async def test_a_pod_filtered_again_holds_its_share_once(site: Site) -> None:
    """binding 2.2 filtered again."""
    pod = await site.submit(memory_mib=6000)
    await site.choose(pod)
    await site.choose(pod)
    assert await site.free_mib("n1") == 4000


async def test_a_pod_that_no_longer_fits_gives_back_what_its_first_try_held(site: Site) -> None:
    pod = await site.submit(memory_mib=6000)
    await site.choose(pod)
    await site.choose(pod, "elsewhere")
    assert await site.free_mib("n1") == 10000


async def test_a_pod_without_cards_may_go_anywhere(site: Site) -> None:
    pod = await site.submit(cards=0, memory_mib=0, seen=False)
    assert (await site.filter(pod, "n1", "n2"))["NodeNames"] == ["n1", "n2"]


async def test_ten_pods_at_once_never_get_more_than_there_is(site: Site) -> None:
    """B-33."""
    pods = [await site.submit(f"p{number}", memory_mib=3000) for number in range(10)]
    nodes = await asyncio.gather(*(site.choose(pod) for pod in pods))
    assert sum(node is not None for node in nodes) == 3


async def test_a_deleted_pod_is_refused(site: Site) -> None:
    """binding 2.2 deleted."""
    pod = await site.submit()
    await site.remove(pod)
    assert (await site.filter(pod))["Error"] == "pod default/p is deleted"


async def test_a_deleted_pod_may_be_forgotten_after_fifteen_minutes(site: Site) -> None:
    """binding 2.2 remembered 15 minutes."""
    pod = await site.submit()
    await site.remove(pod)
    await site.clock.run_until(lambda: pod.metadata.uid not in site.process.state.shown.gone, step_s=100)
    assert site.clock.elapsed_s > 900


async def test_a_bound_pod_is_not_decided_again(site: Site) -> None:
    """binding 2.2 confirm."""
    pod = await site.submit()
    await site.choose(pod)
    await site.bind(pod)
    assert (await site.filter(pod))["Error"] == "pod default/p is bound to node n1 already"


async def test_a_pod_that_another_bound_without_cards_is_not_decided_for(site: Site) -> None:
    """binding 2.2 bound elsewhere."""
    await site.register("n2")
    pod = await site.submit(memory_mib=6000)
    await site.bind_by_another(pod, "n2", {})
    await site.wait_bound(pod)
    assert (await site.filter(pod, "n1"))["Error"] == "pod default/p is bound to node n2 already"
    assert await site.free_mib("n1") == 10000


async def test_a_pod_deleted_before_its_bind_gives_back_its_share(site: Site) -> None:
    """binding 2.2 deleted."""
    pod = await site.submit(memory_mib=9000)
    await site.choose(pod)
    await site.remove(pod)
    assert await site.free_mib("n1") == 10000


async def test_an_invented_pod_holds_its_share_for_two_seconds_only(site: Site) -> None:
    """binding 2.2 not shown within 2 s."""
    invented = msgspec.convert(
        {
            "metadata": {"name": "ghost", "namespace": "default", "uid": "invented"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        },
        Pod,
    )
    assert await site.choose(invented) == "n1"
    await site.clock.advance(1.5)
    assert len(site.process.state.cluster.ledger) == 1
    await site.clock.run_until(lambda: len(site.process.state.cluster.ledger) == 0)
    assert site.clock.elapsed_s >= 2


async def test_a_pod_that_the_watch_has_not_shown_keeps_its_share_when_the_api_server_knows_it(site: Site) -> None:
    """binding 2.2 not shown within 2 s."""
    await site.clock.advance(1)
    site.server.faults.cut_watches("pods")
    outage = site.fail("GET", r"/pods\?", status=503, times=1000)
    pod = await site.submit(memory_mib=9000, seen=False)
    asked = site.fail("GET", "/pods/p$", delay_s=0)
    assert await site.choose(pod) == "n1"
    await site.clock.run_until(lambda: site.has_happened(asked))
    assert await site.free_mib("n1") == 1000
    site.server.faults.waiting.remove(outage)


async def test_a_reservation_without_bind_ends_after_fifteen_minutes(site: Site) -> None:
    """binding 2.2 without Bind."""
    await site.choose(await site.submit())
    await site.clock.advance(890)
    assert len(site.process.state.cluster.ledger) == 1
    await site.clock.run_until(lambda: len(site.process.state.cluster.ledger) == 0, step_s=5)


async def test_a_node_that_registers_is_used_at_once(site: Site) -> None:
    """binding 4 a node's event is a pass."""
    pod = await site.submit(memory_mib=20000)
    await site.register("n2", card("n2", memory_mib=40000))
    assert await site.choose(pod, "n1", "n2") == "n2"


async def test_a_broken_register_annotation_keeps_the_cards_and_harms_no_other_node(site: Site) -> None:
    """B-27; scheduler 8.1 healthy, discovery error."""
    await site.annotate("n1", {REGISTER: "broken"})
    await site.register("n2", text="[{]")
    await site.register("n3")
    assert await site.choose(await site.submit("a"), "n1") == "n1"
    assert await site.choose(await site.submit("b"), "n3") == "n3"


async def test_an_empty_register_annotation_removes_the_cards(site: Site) -> None:
    """B-27; scheduler 8.1 healthy, zero devices."""
    await site.annotate("n1", {REGISTER: "[]"})
    assert (await site.filter(await site.submit()))["FailedAndUnresolvableNodes"] == {"n1": "node unregistered"}


@pytest.mark.parametrize("missing", ["name", "namespace", "uid"])
@pytest.mark.parametrize("filter_write", ["bind", "inline"])
async def test_a_pod_that_nobody_could_find_is_refused_and_harms_nobody(
    site: Site, missing: str, filter_write: Any
) -> None:
    """binding 6 bad input: it would hold cards, and asking for it would fail."""
    await site.restart(dataclasses.replace(DEFAULTS, filter_write=filter_write))
    pod = await site.submit()
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.metadata.uid} | {missing: ""}
    odd = pod_manifest("odd", memory_mib=3000) | {"metadata": metadata}
    reply = await site.call("filter", {"Pod": odd, "NodeNames": ["n1"]})
    assert reply["Error"] == "extender args must name the pod, its namespace and its UID"
    await site.clock.advance(5)
    assert len(site.process.state.cluster.ledger) == 0
    assert await site.choose(pod) == "n1"


async def test_an_allocation_of_an_earlier_try_is_removed_by_inline_writes(site: Site) -> None:
    """B-23."""
    await site.restart(dataclasses.replace(DEFAULTS, filter_write="inline"))
    await site.submit()
    pod = await site.change_pod("p", {"metadata": {"annotations": {"hami.io/vgpu-mig-allocations": "[]"}}})
    assert await site.choose(pod) == "n1"
    assert "hami.io/vgpu-mig-allocations" not in (await site.pod()).annotations


async def test_an_inline_decision_is_not_written_on_another_pod_of_the_same_name(site: Site) -> None:
    """binding 2 pod recreated under the same name between Filter and its write."""
    await site.restart(dataclasses.replace(DEFAULTS, filter_write="inline"))
    pod = await site.submit()
    earlier = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="earlier"))
    assert "uid" in (await site.filter(earlier))["Error"]
    assert VGPU_NODE not in (await site.pod()).annotations
    assert len(site.process.state.cluster.ledger) == 0
