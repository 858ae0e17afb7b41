"""A stream of pods through the real kube-scheduler with ``fragmentation`` fills a cluster as the simulator says."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuloom.kube import PODS
from gpuloom.simulation.arrivals import make_arrivals
from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.policies.fragmentation import Fragmentation
from harness.fleet import Fleet
from harness.installation import SCHEDULER_NAME
from harness.objects import PODS as POD_PATH
from harness.playedplugins import PlayedPlugins

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

NODES, CARDS = 20, 8
"""So few that a run takes about a minute: one card is 0.6 points of what they have."""
SHAPES = (
    (2000, 810, 1, 27),
    (6000, 1000, 1, 24),
    (5000, 470, 1, 20),
    (2000, 320, 1, 10),
    (2000, 230, 1, 6),
    (4000, 650, 1, 8),
    (16000, 1000, 2, 3),
    (40000, 1000, 8, 2),
)
"""Milli-cores, thousandths of a card, cards, and how many of a hundred."""


def list_pods() -> list[TracePod]:
    return [
        TracePod(f"{at}-{number}", TraceShape(cpu, 0, cards, milli, ""))
        for at, (cpu, milli, cards, count) in enumerate(SHAPES)
        for number in range(count)
    ]


def simulate(arriving: list[TracePod]) -> float:
    nodes = [TraceNode(f"node-{number}", 64_000, 256 * 1024, CARDS, "NVIDIA A40") for number in range(NODES)]
    journal = place_all(TraceCluster(nodes), arriving, Fragmentation, workload=tuple(list_pods()), mode="B", seed=1)
    return journal.allocated[-1] / (1000 * NODES * CARDS)


def make_manifest(name: str, shape: TraceShape) -> dict[str, Any]:
    part = str(shape.milli // 10)
    limits = {"nvidia.com/gpu": str(shape.gpus), "nvidia.com/gpumem-percentage": part, "nvidia.com/gpucores": part}
    resources = {"limits": limits, "requests": {"cpu": f"{shape.cpu_milli}m"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "schedulerName": SCHEDULER_NAME,
            "automountServiceAccountToken": False,
        },
    }


def write_workload(file: Path) -> None:
    entries = [
        {"count": count, "vendor": "NVIDIA", "cards": cards, "cpuMilli": cpu, "memoryPercent": milli // 10,
         "cores": milli // 10}
        for cpu, milli, cards, count in SHAPES
    ]  # fmt: skip
    file.write_bytes(msgspec.yaml.encode(entries))


def is_tried(pod: Any) -> bool:
    conditions = pod["status"].get("conditions") or []
    return bool(pod["spec"].get("nodeName")) or any(one["type"] == "PodScheduled" for one in conditions)


async def test_what_the_cluster_reaches_agrees_with_the_simulator(control_plane_binaries: None, tmp_path: Path) -> None:
    arriving = make_arrivals(list_pods(), 1000 * NODES * CARDS, seed=1)
    demand = {f"pod-{number:04}": pod.shape.demand for number, pod in enumerate(arriving)}
    write_workload(tmp_path / "workload.yaml")
    async with Fleet(tmp_path / "fleet", cards=CARDS, memory_mib=100_000) as fleet:
        await fleet.add_nodes(NODES)
        flags = ("--node-scheduler-policy=fragmentation", f"--workload-file={tmp_path / 'workload.yaml'}")
        await fleet.start_gpuloom(f"--scheduler-name={SCHEDULER_NAME}", *flags, through_proxy=False)
        async with PlayedPlugins(fleet.client):
            await fleet.start_kube_scheduler()
            for name, pod in zip(demand, arriving, strict=True):
                await fleet.client.create(PODS, make_manifest(name, pod.shape), namespace="default")
            pods = await asyncio.to_thread(
                fleet.control_plane.api.wait_for,
                POD_PATH,
                lambda found: all(map(is_tried, found["items"])),
                timeout_s=400,
            )
    bound = {pod["metadata"]["name"] for pod in pods["items"] if pod["spec"].get("nodeName")} & demand.keys()
    reached = sum(demand[name] for name in bound) / (1000 * NODES * CARDS)
    waiting = Counter(pod.shape for name, pod in zip(demand, arriving, strict=True) if name not in bound)
    assert reached == pytest.approx(simulate(arriving), abs=0.01), waiting
    # Somebody waits: the cluster is full, and how well it is packed shows.
    assert waiting
    assert reached > 0.9
