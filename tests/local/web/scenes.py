"""Clusters that a dashboard has something to show of."""

from typing import Any

from local.scheduler.clock import poll
from local.scheduler.site import ALLOCATED, LOCK, PHASE, REGISTER, TO_ALLOCATE, VGPU_NODE, Site, offer

from gpuloom.kube import NODES, PODS, RESOURCE_QUOTAS
from gpuloom.local.manifests import pod_manifest
from gpuloom.model.card import Card
from gpuloom.wire.register import encode_register

L4, A100 = "NVIDIA L4", "NVIDIA A100-SXM4-40GB"


def cards_of(node: str, model: str, count: int, memory_mib: int, *, broken: int = -1) -> list[Card]:
    return [
        Card(
            id=f"GPU-{node}-{place:04x}-4000-8000",
            index=place,
            count=10,
            memory_mib=memory_mib,
            cores=100,
            model=model,
            mode="hami-core",
            numa=place * 2 // count,
            healthy=place != broken,
        )
        for place in range(count)
    ]


async def run_pod(site: Site, name: str, *nodes: str, **request: Any) -> str | None:
    """Create a pod, choose a node for it and bind it there; the node."""
    pod = await site.submit(name, **request)
    node = await site.choose(pod, *nodes)
    if node:
        assert await site.bind(pod, node) == ""
        await site.wait_bound(pod)
        await site.annotate(node, {LOCK: None})  # what its device plugin would do
    return node


async def set_small_scene(site: Site) -> None:
    """Three nodes and one without cards; pods on some of them, two that wait, a quota."""
    nodes = ("node-a", "node-b", "node-c")
    await site.register("node-a", *cards_of("node-a", L4, 4, 23034))
    await site.register("node-b", *cards_of("node-b", L4, 4, 23034, broken=2))
    cordon = {"hami.io/device-cordon": "GPU-node-c-0007-4000-8000"}
    await site.register("node-c", *cards_of("node-c", A100, 8, 40960), annotations=cordon)
    await site.register("node-d", text="[]")
    quota = {
        "metadata": {"name": "cards", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "400000"}},
    }
    await site.client.create(RESOURCE_QUOTAS, quota, namespace="default")
    prefer = {"nvidia.com/use-gputype": "L4"}
    for number in range(1, 4):
        await run_pod(site, f"notebook-{number}", *nodes, memory_mib=6000, cores=25, annotations=prefer)
    await run_pod(site, "train-large", "node-c", cards=6, memory_mib=40960, cores=100)
    await run_pod(site, "giant", *nodes, memory_mib=60000)
    await run_pod(site, "train-wide", *nodes, cards=4, memory_mib=40000, cores=80)


async def set_large_scene(site: Site, nodes: int = 1000) -> None:
    """Many nodes with eight cards each; some in use, full, unhealthy, cordoned, or without cards; pods that wait."""
    empty = [number for number in range(nodes) if number % 211 == 3]
    for number in range(nodes):
        name = f"gpu-{number:04d}"
        if number in empty:
            await site.client.create(NODES, {"metadata": {"name": name}})
            continue
        cards = cards_of(name, A100 if number % 3 else L4, 8, 40960, broken=4 if number % 97 == 5 else -1)
        closed = {"hami.io/device-cordon": cards[7].id} if number % 61 == 7 else {}
        metadata = {"name": name, "annotations": {REGISTER: encode_register(cards), **closed}}
        await site.client.create(NODES, {"metadata": metadata, "status": offer(80)})
        await site.client.create(PODS, _running(number, name, cards), namespace="default")
    await poll(lambda: len(list(site.process.state.cluster.nodes)) >= nodes - len(empty))
    await poll(lambda: len(site.process.state.cluster.ledger) >= nodes - len(empty))
    for number in range(3):
        await site.choose(await site.submit(f"wide-{number}", cards=8, memory_mib=40000), "gpu-0000", "gpu-0001")


def _running(number: int, node: str, cards: list[Card]) -> dict[str, Any]:
    """Make a pod that is bound and has a share of most cards of a node."""
    amounts = [(number * 7919 + place * 104729) % 13 * 4096 for place in range(len(cards))]
    given = [(card, min(mib, 40960)) for card, mib in zip(cards, amounts, strict=True) if mib]
    text = "".join(f"{card.id},NVIDIA,{mib},{mib * 100 // 40960}:" for card, mib in given) + ";"
    manifest = pod_manifest(f"worker-{number}", cards=len(given))
    manifest["metadata"]["annotations"] = {VGPU_NODE: node, ALLOCATED: text, TO_ALLOCATE: ";", PHASE: "success"}
    manifest["spec"] |= {"nodeName": node, "schedulerName": "hami-scheduler"}
    return manifest
