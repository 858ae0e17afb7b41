"""Cards of families that do not look at cordons: closing one would keep no pod off it, so that is refused."""

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

CARDS = {"amd": ("AMD", 1), "ascend": ("Ascend310P", 1), "mlu-one": ("MLU", 1), "mlu-two": ("MLU", 2)}
"""Families and numbers of cards, by node."""
WHOLE = {"cambricon.com/vmlu": "1"}
PART = {**WHOLE, "cambricon.com/mlu.smlu.vmemory": "16", "cambricon.com/mlu.smlu.vcore": "10"}
WHY = "card {0} of node {1} cannot be cordoned: it is of {2}, and only cards of NVIDIA GPU can"
ADVICE = f"gpuloom: {WHY}; kubectl cordon {{1}} closes the whole node\n"


def asks(name: str, limits: dict[str, str], node: str = "") -> dict[str, Any]:
    manifest = pod_manifest(name, node_selector={"kubernetes.io/hostname": node} if node else None)
    manifest["spec"]["containers"][0]["resources"]["limits"] = limits
    return manifest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """The pod ``moves`` is on node mlu-two, where it leaves no room for a pod of two whole cards."""
    catalog = ClusterDescription(()).catalog
    nodes = [
        VendorNodeDescription(name, describe_machine(catalog[word], cards=cards))
        for name, (word, cards) in CARDS.items()
    ]
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription((), tuple(nodes)), Path(directory)) as cluster:
            await cluster.submit(asks("fills", WHOLE, "mlu-one"))
            await settle(cluster, "fills")
            await cluster.submit(asks("moves", PART))
            await settle(cluster, "moves")
            await cluster.client.delete(PODS, "fills", namespace="default", grace_period_s=0)
            yield Stage(cluster)


async def see_nothing_changed(stage: Stage) -> None:
    pods, _ = await stage.cluster.client.list_all(PODS)
    nodes, _ = await stage.cluster.client.list_all(NODES)
    assert [(pod.name, pod.spec.node_name) for pod in pods] == [("moves", "mlu-two")]
    assert [node.name for node in nodes if NODE_CORDON in node.annotations] == []


@pytest.mark.parametrize(
    ("card", "node", "family"),
    [
        ("AMD-0", "amd", "AMD GPU"),
        ("Ascend310P-0", "ascend", "Huawei Ascend310P"),
        ("mlu-two-cambricon-mlu-1", "mlu-two", "Cambricon MLU"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [("cordon",), ("drain-card", "--yes", "--force"), ("drain-card", "--dry-run")],
    ids=["cordon", "drain", "dry run"],
)
async def test_it_is_refused_and_nobody_is_evicted(
    stage: Stage, command: tuple[str, ...], card: str, node: str, family: str
) -> None:
    said = await stage.gpuloom(*command, card)
    assert (said.code, said.out, said.err) == (1, "", ADVICE.format(card, node, family))
    await see_nothing_changed(stage)


async def test_moves_are_planned_and_not_made(stage: Stage) -> None:
    plan = await stage.gpuloom("defrag", "--for", "MLU=2", "--force")
    assert plan.out.startswith("2 whole cards MLU: 1 move would make room on node mlu-two\n")
    said = await stage.gpuloom("defrag", "--for", "MLU=2", "--force", "--execute", "--yes")
    why = WHY.format("mlu-two-cambricon-mlu-0", "mlu-two", "Cambricon MLU")
    assert (said.code, said.out) == (1, "")
    assert said.err == f"gpuloom: nobody is evicted: {why}; leave --execute out for the plan\n"
    await see_nothing_changed(stage)


async def test_what_was_cordoned_before_can_be_opened(stage: Stage) -> None:
    cordon = {"metadata": {"annotations": {NODE_CORDON: "AMD-0"}}}
    await stage.cluster.client.patch(NODES, "amd", cordon)
    said = await stage.gpuloom("uncordon", "AMD-0")
    assert (said.code, said.out) == (0, "card AMD-0 of node amd uncordoned\n")
    await see_nothing_changed(stage)


async def test_a_card_of_a_family_of_ones_own_is_cordoned(stage: Stage) -> None:
    """Whether that heeds it, only its profile says, which the command does not have."""
    card = Card(id="ACME-1", index=0, count=4, memory_mib=16384, cores=100, model="Acme One", healthy=True)
    annotations = {"hami.io/node-acme-register": encode_register([card])}
    await stage.cluster.client.create(NODES, {"metadata": {"name": "acme", "annotations": annotations}})
    said = await stage.gpuloom("cordon", "ACME-1")
    await stage.cluster.client.delete(NODES, "acme")
    assert (said.code, said.out) == (0, "card ACME-1 of node acme cordoned\n")
