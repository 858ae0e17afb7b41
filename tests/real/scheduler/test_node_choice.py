"""The real kube-scheduler chooses among the nodes that gpuloom names, by wishes of its own (binding 10)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.fleet import Fleet
from harness.installation import SCHEDULER_NAME
from harness.objects import PODS as POD_PATH
from harness.playedplugins import PlayedPlugins

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

NODES = 6
PREFERRED = "node-4"
DRAWING = "node-1"
FULL_CARD_MIB = 10_000


def match_name(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def prefer(node: str) -> dict[str, Any]:
    term = {"weight": 100, "preference": match_name(node)}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def require(node: str) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [match_name(node)]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(("choice", "obeyed"), [("scheduler", True), ("extender", False)])
async def test_preferred_node_affinity_is_obeyed_where_kube_scheduler_chooses(
    control_plane_binaries: None, tmp_path: Path, choice: str, *, obeyed: bool
) -> None:
    """Four pods with a wish fill the cards of that node, a burst without wishes then fills all others.

    A pod on another node draws them there where gpuloom chooses, so that no chance decides (nodes in use come first).
    """
    async with Fleet(tmp_path / "fleet", cards=4) as fleet:
        await fleet.add_nodes(NODES)
        await fleet.start_gpuloom(f"--scheduler-name={SCHEDULER_NAME}", f"--node-choice={choice}", through_proxy=False)
        async with PlayedPlugins(fleet.client):
            await fleet.start_kube_scheduler(prioritizes=choice == "scheduler")
            drawing = {"drawing": FULL_CARD_MIB}
            await fleet.add_pods(drawing, **require(DRAWING))
            assert await wait_bound(fleet, drawing) == {"drawing": DRAWING}
            wishing = {f"wish-{number}": FULL_CARD_MIB for number in range(4)}
            await fleet.add_pods(wishing, **prefer(PREFERRED))
            placed = await wait_bound(fleet, wishing)
            assert (set(placed.values()) == {PREFERRED}) is obeyed
            others = {f"other-{number}": FULL_CARD_MIB for number in range(4 * NODES - 5)}
            await fleet.add_pods(others)
            placed |= await wait_bound(fleet, others)
    assert sorted([DRAWING, *placed.values()]) == sorted(f"node-{number}" for number in range(NODES) for _ in range(4))


async def wait_bound(fleet: Fleet, names: dict[str, int]) -> dict[str, str]:
    """Wait until these pods are bound; return their nodes."""

    def read(pods: Any) -> dict[str, str]:
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods["items"]}
        return {name: node for name, node in nodes.items() if name in names and node}

    found = await asyncio.to_thread(
        fleet.control_plane.api.wait_for, POD_PATH, lambda pods: len(read(pods)) == len(names), timeout_s=120
    )
    return read(found)
