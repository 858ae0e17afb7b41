"""Pods of a trace that arrive at nodes of a trace, as objects, through the real kube-scheduler: what it comes to.

A share of ``d`` thousandths of a GPU is ``d/10`` per cent of its memory and of its cores, as in the simulator.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuloom.kube import PODS
from gpuloom.simulation.cluster import SLOTS, TraceNode
from gpuloom.simulation.measure import Journal
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.reading.traces import read_nodes, read_pods
from harness.fleet import Fleet, make_node
from harness.installation import SCHEDULER_NAME
from harness.objects import PODS as POD_PATH
from harness.playedplugins import PlayedPlugins

OPENB = Path(__file__).resolve().parents[2] / "benchmarks" / "openb"
POLL_S = 3.0
CARD_MIB = 100_000
"""Of so much, every per cent is a whole number of MiB."""


def read_mix(count: int) -> list[TraceNode]:
    """Return so many of openb's nodes, in its mix: evenly from those in the order of their kind."""
    nodes = read_nodes(str(OPENB / "openb_node_list_gpu_node.csv.xz"))
    ordered = sorted(nodes, key=lambda node: (node.model, node.gpus, node.cpu_milli, node.memory_mib, node.name))
    return [ordered[at * len(ordered) // count] for at in range(count)]


def read_list(name: str) -> tuple[TracePod, ...]:
    """Return the pods of one of openb's lists."""
    return read_pods(str(OPENB / f"openb_pod_list_{name}.csv.xz"))


async def fill(
    directory: Path,
    nodes: Iterable[TraceNode],
    arriving: Sequence[TracePod],
    *,
    policy: str,
    workload: Iterable[TracePod],
    percent_of_nodes: int,
    timeout_s: float,
    node_choice: str = "extender",
) -> Journal:
    """Let pods arrive at a cluster of a real control plane, and tell what happened to each.

    kube-scheduler looks for nodes until it has this percentage of them, 0 for as many as it thinks right. With a
    ``node_choice`` of ``scheduler`` it chooses among those that gpuloom names and scores.
    """
    file = directory / "workload.yaml"
    file.write_bytes(encode_workload(workload))
    named = {f"pod-{number:05}": pod.shape for number, pod in enumerate(arriving)}
    async with Fleet(directory / "fleet") as fleet:
        await fleet.add_made(map(make_trace_node, nodes))
        flags = (f"--node-scheduler-policy={policy}", f"--workload-file={file}", f"--node-choice={node_choice}")
        await fleet.start_gpuloom(f"--scheduler-name={SCHEDULER_NAME}", *flags, through_proxy=False)
        async with PlayedPlugins(fleet.client):
            await fleet.start_kube_scheduler(prioritizes=node_choice == "scheduler", percent_of_nodes=percent_of_nodes)
            for name, shape in named.items():
                await fleet.client.create(PODS, make_trace_pod(name, shape), namespace="default")
            tried = await wait_until_tried(fleet, len(named), timeout_s)
    bound = {pod["metadata"]["name"] for pod in tried if pod["spec"].get("nodeName")}
    return write_journal(list(named.values()), [name in bound for name in named])


async def wait_until_tried(fleet: Fleet, count: int, timeout_s: float) -> list[Any]:
    """Return all pods once so many were tried. Raise TimeoutError when they are not in time."""
    async with asyncio.timeout(timeout_s):
        while True:
            pods = (await asyncio.to_thread(fleet.control_plane.api.get, POD_PATH))["items"]
            if sum(map(is_tried, pods)) >= count:
                return list(pods)
            # Megabytes each time: who asks more often slows down what is waited for.
            await asyncio.sleep(POLL_S)


def is_tried(pod: Any) -> bool:
    """Tell whether kube-scheduler has bound a pod, or found no node for it; not of pods of device plugins."""
    conditions = pod["status"].get("conditions") or []
    return pod["spec"].get("schedulerName") == SCHEDULER_NAME and (
        bool(pod["spec"].get("nodeName")) or any(one["type"] == "PodScheduled" for one in conditions)
    )


def write_journal(shapes: Sequence[TraceShape], placed: Sequence[bool]) -> Journal:
    """Tell what happened, in the simulator's words, where pods were tried in the order of their arrival."""
    arrived, allocated = [0], [0]
    for shape, is_placed in zip(shapes, placed, strict=True):
        arrived.append(arrived[-1] + shape.demand)
        allocated.append(allocated[-1] + is_placed * shape.demand)
    failed, gpus = [not one for one in placed], [shape.gpus for shape in shapes]
    return Journal(arrived[1:], allocated[1:], failed, gpus, [0.0] * len(shapes))


def make_trace_node(node: TraceNode) -> dict[str, Any]:
    """Return a node of a trace as an object."""
    return make_node(
        node.name,
        cards=node.gpus,
        memory_mib=CARD_MIB,
        slots=SLOTS,
        model=f"NVIDIA {node.model}",
        cpu=f"{node.cpu_milli}m",
        memory=f"{node.memory_mib}Mi",
    )


def make_trace_pod(name: str, shape: TraceShape) -> dict[str, Any]:
    """Return a pod of a trace as an object."""
    resources: dict[str, Any] = {"requests": {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}}
    if shape.gpus:
        part = str(shape.milli // 10)
        resources["limits"] = {
            "nvidia.com/gpu": str(shape.gpus),
            "nvidia.com/gpumem-percentage": part,
            "nvidia.com/gpucores": part,
        }
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "schedulerName": SCHEDULER_NAME,
            "automountServiceAccountToken": False,
        },
    }


def encode_workload(pods: Iterable[TracePod]) -> bytes:
    """Return the file of a workload of which these pods are typical."""
    counts = Counter((pod.shape.cpu_milli, pod.shape.gpus, pod.shape.milli // 10) for pod in pods)
    return msgspec.yaml.encode(
        [
            {"count": count, "cpuMilli": cpu}
            | ({"vendor": "NVIDIA", "cards": gpus, "memoryPercent": part, "cores": part} if gpus else {})
            for (cpu, gpus, part), count in sorted(counts.items())
        ]
    )
