"""Filter with whole nodes, as autoscalers send them (scheduler 4.8)."""

from typing import Any

from local.scheduler.site import REGISTER, Site, card

from gpuloom.wire.objects import Pod
from gpuloom.wire.register import encode_register


def describe(name: str, memory_mib: int) -> dict[str, Any]:
    cards = encode_register([card(name, memory_mib=memory_mib)])
    return {"metadata": {"name": name, "annotations": {REGISTER: cards}}, "spec": {"unknown": name}}


async def simulate(site: Site, pod: Pod, *nodes: dict[str, Any]) -> Any:
    return await site.call("filter", {"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None})


async def test_the_best_node_comes_back_as_it_was_sent(site: Site) -> None:
    """B-31."""
    node = describe("new", 20000)
    reply = await simulate(site, await site.submit(memory_mib=15000), describe("small", 1000), node)
    assert (reply["Nodes"]["items"], reply["NodeNames"]) == ([node], None)
    assert reply["FailedNodes"] == {"small": "1/1 CardInsufficientMemory"}


async def test_when_nothing_fits_the_reasons_come_back(site: Site) -> None:
    reply = await simulate(site, await site.submit(memory_mib=15000), describe("small", 1000))
    assert (reply["Nodes"], reply["FailedNodes"]) == (None, {"small": "1/1 CardInsufficientMemory"})


async def test_a_pod_without_cards_gets_all_nodes_back(site: Site) -> None:
    """B-30."""
    pod = await site.submit(cards=0, memory_mib=0, seen=False)
    node = describe("new", 20000)
    assert (await simulate(site, pod, node))["Nodes"]["items"] == [node]


async def test_a_simulation_reserves_nothing_and_looks_at_no_usage(site: Site) -> None:
    pod = await site.submit(memory_mib=9000)
    for _ in range(3):
        reply = await simulate(site, pod, describe("n1", 10000))
        assert len(reply["Nodes"]["items"]) == 1
    assert await site.free_mib("n1") == 10000


async def test_a_node_that_cannot_be_read_is_refused_alone(site: Site) -> None:
    broken = {"metadata": {"name": "broken", "annotations": {REGISTER: "x"}}}
    reply = await simulate(site, await site.submit(), broken, describe("new", 20000))
    assert (len(reply["Nodes"]["items"]), reply["FailedNodes"]) == (1, {"broken": "node unregistered"})
