"""Cards of families other than NVIDIA, at whose cordons HAMi does not look."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local.asking.conftest import Stage, settle

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, VendorNodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.vendornode import describe_machine
from gpuloom.model.card import Card
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.register import encode_register

pytestmark = pytest.mark.asyncio(loop_scope="module")

CARDS = {"amd": ("AMD", 1), "kunlun": ("kunlun", 8), "mlu-one": ("MLU", 1), "mlu-two": ("MLU", 2)}
"""Families and numbers of cards, by node."""
WHOLE = {"cambricon.com/vmlu": "1"}
PART = {**WHOLE, "cambricon.com/mlu.smlu.vmemory": "16", "cambricon.com/mlu.smlu.vcore": "10"}


def asks(name: str, limits: dict[str, str], node: str = "") -> dict[str, Any]:
    manifest = pod_manifest(name, node_selector={"kubernetes.io/hostname": node} if node else None)
    manifest["spec"]["containers"][0]["resources"]["limits"] = limits
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "u-owner", "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Nodes on which nothing runs."""
    catalog = ClusterDescription(()).catalog
    nodes = [
        VendorNodeDescription(name, describe_machine(catalog[word], cards=cards))
        for name, (word, cards) in CARDS.items()
    ]
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription((), tuple(nodes)), Path(directory)) as cluster:
            yield Stage(cluster)


async def run(stage: Stage, name: str, limits: dict[str, str], node: str = "") -> None:
    await stage.cluster.submit(asks(name, limits, node))
    await settle(stage.cluster, name)


async def remove(stage: Stage, *names: str) -> None:
    for name in names:
        await stage.cluster.client.delete(PODS, name, namespace="default", grace_period_s=0)


async def list_pods(stage: Stage) -> dict[str, str]:
    pods, _ = await stage.cluster.client.list_all(PODS)
    return {pod.name: pod.spec.node_name or "" for pod in pods}


async def list_closed(stage: Stage) -> list[str]:
    nodes, _ = await stage.cluster.client.list_all(NODES)
    return [node.annotations[NODE_CORDON] for node in nodes if node.annotations.get(NODE_CORDON)]


async def test_a_cordoned_card_takes_no_new_pod_until_it_is_opened(stage: Stage) -> None:
    pod = json.dumps(asks("new", {"amd.com/gpu": "1"}))
    said = await stage.gpuloom("cordon", "AMD-0")
    assert (said.code, said.out, said.err) == (0, "card AMD-0 of node amd cordoned\n", "")
    refused = await stage.gpuloom("fits", "-f", "-", stdin=pod)
    assert refused.code == 1
    assert refused.out.endswith("it fits if card AMD-0 of amd were opened again (gpuloom uncordon).\n")
    said = await stage.gpuloom("uncordon", "AMD-0")
    assert (said.code, said.out, said.err) == (0, "card AMD-0 of node amd uncordoned\n", "")
    assert (await stage.gpuloom("fits", "-f", "-", stdin=pod)).code == 0


@pytest.mark.parametrize(
    ("limits", "node", "card"),
    [(PART, "mlu-one", "mlu-one-cambricon-mlu-0"), ({"kunlunxin.com/xpu": "8"}, "kunlun", "kunlun-kunlun-3")],
    ids=["MLU", "Kunlun"],
)
async def test_draining_evicts_who_is_on_the_card(stage: Stage, limits: dict[str, str], node: str, card: str) -> None:
    await run(stage, "runs", limits, node)
    said = await stage.gpuloom("drain-card", card, "--yes")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1:] == [
        f"card {card} of node {node} cordoned",
        "pod default/runs evicted",
        f"card {card} of node {node} drained",
    ]
    assert await list_pods(stage) == {}
    assert (await stage.gpuloom("uncordon", card)).code == 0


async def test_a_dry_run_does_not_put_a_pod_back_on_the_card(stage: Stage) -> None:
    await run(stage, "runs", {"amd.com/gpu": "1"})
    said = await stage.gpuloom("drain-card", "AMD-0", "--dry-run")
    await remove(stage, "runs")
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith("default/runs: no room: 1 nodes CardCordoned(amd); ")


async def test_cards_that_become_free_by_moves_are_closed_meanwhile(stage: Stage) -> None:
    await run(stage, "fills", WHOLE, "mlu-one")
    await run(stage, "moves", PART)
    await remove(stage, "fills")
    seen: list[list[str]] = []

    async def make_anew() -> None:
        while "moves" in await list_pods(stage):  # noqa: ASYNC110 - waits for what other processes do
            await asyncio.sleep(0.05)
        seen.append(await list_closed(stage))
        await stage.cluster.submit(asks("anew", PART))

    task = asyncio.create_task(make_anew())
    said = await stage.gpuloom("defrag", "--for", "MLU=2", "--execute", "--yes")
    await task
    assert (said.code, said.err) == (0, "")
    assert await list_pods(stage) == {"anew": "mlu-one"}
    assert seen == [["mlu-two-cambricon-mlu-0,mlu-two-cambricon-mlu-1"]]
    assert await list_closed(stage) == []
    await remove(stage, "anew")


async def test_a_card_of_a_family_of_ones_own_is_cordoned(stage: Stage) -> None:
    card = Card(id="ACME-1", index=0, count=4, memory_mib=16384, cores=100, model="Acme One", healthy=True)
    annotations = {"hami.io/node-acme-register": encode_register([card])}
    await stage.cluster.client.create(NODES, {"metadata": {"name": "acme", "annotations": annotations}})
    said = await stage.gpuloom("cordon", "ACME-1")
    await stage.cluster.client.delete(NODES, "acme")
    assert (said.code, said.out) == (0, "card ACME-1 of node acme cordoned\n")
