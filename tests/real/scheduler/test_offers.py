"""How kube-scheduler offers nodes and takes bindings: what differs between its versions (docs/compatibility.md)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuloom.kube import PODS, Applied, InitialObject, KubeClient, Reflector, load_kubeconfig
from gpuloom.wire.objects import Pod
from harness.accounts import Accounts
from harness.fleet import Fleet
from harness.helm import copies_labels
from harness.playedplugins import PlayedPlugins

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

LABEL = "hami.io/vgpu-node"
BIG_MIB = 9000
MANY = 300


@pytest.fixture
async def fleet(control_plane_binaries: None, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two nodes with one card each; gpuloom records what it is asked."""
    async with open_fleet(tmp_path, 2) as fleet:
        yield fleet


@pytest.fixture
async def large_fleet(control_plane_binaries: None, tmp_path: Path) -> AsyncIterator[Fleet]:
    """As many nodes as are never offered all at once, nor by two calls."""
    async with open_fleet(tmp_path, MANY, percent_of_nodes=34) as fleet:
        yield fleet


@asynccontextmanager
async def open_fleet(tmp_path: Path, nodes: int, *, percent_of_nodes: int = 0) -> AsyncIterator[Fleet]:
    async with Fleet(tmp_path, cards=1) as fleet:
        await fleet.add_nodes(nodes)
        await fleet.start_gpuloom(f"--record={tmp_path / 'recording'}")
        await fleet.start_kube_scheduler(percent_of_nodes=percent_of_nodes)
        async with KubeClient(load_kubeconfig(fleet.control_plane.kubeconfig)) as client, PlayedPlugins(client):
            yield fleet


def only_on(node: str) -> dict[str, Any]:
    """Return what keeps a pod on one node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


async def bind(fleet: Fleet, pod: Pod) -> Pod:
    """Wait until a pod is bound; return how it was first shown so."""
    async with asyncio.timeout(60), aclosing(Reflector(fleet.client, PODS).events()) as events:
        async for event in events:
            match event:
                case InitialObject(found) | Applied(found) if found.metadata.uid == pod.metadata.uid:
                    if found.spec.node_name:
                        return found
    raise AssertionError


async def read_offers(recording: Path, pod: Pod) -> list[list[str]]:
    """Return the nodes of every Filter call for a bound pod, once its Bind is recorded: lines come after answers."""
    uid = pod.metadata.uid
    async with asyncio.timeout(60):
        while all(bind["PodUID"] != uid for bind in _read_calls(recording, "BIND")):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.05)
    asked = _read_calls(recording, "FILTER")
    return [sorted(one["NodeNames"]) for one in asked if one["Pod"]["metadata"]["uid"] == uid]


def _read_calls(recording: Path, verb: str) -> list[dict[str, Any]]:
    """Return the arguments of every call of a kind whose line is written whole."""
    lines = map(json.loads, recording.read_bytes().rpartition(b"\n")[0].splitlines())
    return [line["args"] for line in lines if line["type"] == verb]


async def test_a_nominated_node_that_is_full_is_offered_alone_before_all_nodes(fleet: Fleet, tmp_path: Path) -> None:
    (occupant,) = await fleet.add_pods({"occupant": BIG_MIB}, **only_on("node-0"))
    await bind(fleet, occupant)
    await asyncio.to_thread(fleet.control_plane.stop_scheduler)
    (pod,) = await fleet.add_pods({"pod": BIG_MIB})
    nominated = {"status": {"nominatedNodeName": "node-0"}}
    await fleet.client.patch(PODS, "pod", nominated, namespace="default", subresource="status")
    await fleet.start_kube_scheduler()
    assert (await bind(fleet, pod)).spec.node_name == "node-1"
    assert await read_offers(tmp_path / "recording", pod) == [["node-0"], ["node-0", "node-1"]]


async def test_pods_of_one_shape_are_each_offered_all_nodes(fleet: Fleet, tmp_path: Path) -> None:
    """No ranking is left from which kube-scheduler could hint a node for the next one."""
    pods = await fleet.add_pods({f"pod-{number}": 1000 for number in range(8)})
    for pod in pods:
        await bind(fleet, pod)
    for pod in pods:
        assert await read_offers(tmp_path / "recording", pod) == [["node-0", "node-1"]]


async def test_the_label_comes_with_the_binding_where_the_api_server_copies_it_and_else_soon_after(
    fleet: Fleet,
) -> None:
    await asyncio.to_thread(fleet.control_plane.stop_scheduler)
    (pod,) = await fleet.add_pods({"pod": 1000})
    async with Accounts(fleet.client) as accounts:
        bound = asyncio.create_task(bind(fleet, pod))
        await fleet.start_kube_scheduler()
        assert (LABEL in (await bound).labels) == copies_labels()
        await accounts.wait_for(lambda: LABEL in accounts.pods[pod.metadata.uid].labels)


async def test_a_pod_that_the_offered_nodes_refuse_is_pointed_to_another(large_fleet: Fleet, tmp_path: Path) -> None:
    """Of 300 nodes kube-scheduler offers a third; here one node alone has room."""
    filling = await large_fleet.add_pods({f"fill-{number}": BIG_MIB for number in range(MANY - 1)})
    taken = {(await bind(large_fleet, pod)).spec.node_name for pod in filling}
    (free,) = {f"node-{number}" for number in range(MANY)} - taken
    for number in range(20):
        (pod,) = await large_fleet.add_pods({f"late-{number}": BIG_MIB})
        assert (await bind(large_fleet, pod)).spec.node_name == free
        offers = await read_offers(tmp_path / "recording", pod)
        if [free] in offers[1:]:
            return
        await large_fleet.client.delete(PODS, pod.name, namespace="default", grace_period_s=0)
    pytest.fail("kube-scheduler never had to be pointed to the free node")
