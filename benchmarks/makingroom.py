"""How long the room that victims leave stays empty, and what a storm of preemptions costs other Filter calls.

``PYTHONPATH=tests .venv/bin/python benchmarks/makingroom.py`` starts a real API server, kube-scheduler and ``gpuloom
scheduler``. Important pods come at a steady pace, one for each node: in one phase to empty nodes, in the next to nodes
that less important ones fill, so that each evicts one. Meanwhile pods that fit elsewhere are asked about without pause.
Phases take turns, so that both see the same machine.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import structlog
from figures import print_case, summarize

from gpuloom.kube import PODS
from gpuloom.wire.objects import Pod
from harness.fleet import Fleet, make_node
from harness.playedkubelets import PlayedKubelets
from harness.playedplugins import PlayedPlugins

CLASSES = {"low": 10, "high": 1000}
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CARD_MIB = 10_000
ASKED_MODEL = "NVIDIA T4"
ASKED = 16
"""So many pods are asked about in turn; what was reserved for one is given back when it is asked about again."""
PAUSE_S = 0.005
WAIT_S = 120.0
JSON = {"Content-Type": "application/json"}


class Stage:
    """A cluster on which pods come and go, and what was measured on it."""

    def __init__(self, fleet: Fleet, kubelets: PlayedKubelets, session: aiohttp.ClientSession, nodes: int) -> None:
        self.fleet = fleet
        self.kubelets = kubelets
        self.nodes = nodes
        self.asked_s: dict[str, list[float]] = {"room": [], "storm": []}
        self.empty_s: list[float] = []
        self._session = session
        self._names = [*(f"node-{number}" for number in range(nodes)), "asked"]

    async def run_phase(self, phase: str, number: int, per_s: float) -> None:
        """Let important pods come: to empty nodes, or in a storm to full ones."""
        names = [f"low-{number}-{one}" for one in range(self.nodes if phase == "storm" else 0)]
        lows = await self._add(names, "low", terminationGracePeriodSeconds=30)
        await self._wait_bound(lows)
        asking, highs = asyncio.create_task(self._ask(self.asked_s[phase])), list[Pod]()
        for one in range(self.nodes):
            highs += await self._add([f"high-{phase}-{number}-{one}"], "high")
            await asyncio.sleep(1 / per_s)
        await self._wait_bound(highs)
        asking.cancel()
        self.empty_s += self._find_empty_times(lows, highs)
        await self._remove(highs)

    def _add(self, names: Iterable[str], importance: str, **spec: Any) -> Awaitable[list[Pod]]:
        return self.fleet.add_pods(dict.fromkeys(names, CARD_MIB), priorityClassName=importance, **spec)

    def _find_empty_times(self, lows: Sequence[Pod], highs: Sequence[Pod]) -> list[float]:
        """Return the seconds from when a node's victim was gone until the important pod was seen bound there."""
        node_of, gone_s = dict(self.kubelets.bound), self.kubelets.gone_s
        gone = {node_of[low.metadata.uid]: gone_s[low.name] for low in lows}
        bound = {node_of[high.metadata.uid]: self.kubelets.bound_s[high.name] for high in highs}
        return [bound[node] - gone[node] for node in gone]

    async def _ask(self, times_s: list[float]) -> None:
        """Ask about one pod after the other until cancelled."""
        number = 0
        while True:
            number = (number + 1) % ASKED
            body = self._make_call(f"asked-{number}")
            began = time.perf_counter()
            async with self._session.post(f"{self.fleet.extender_url}/filter", data=body, headers=JSON) as reply:
                await reply.read()
            times_s.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_S)

    def _make_call(self, name: str) -> bytes:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"}
        container = {"name": "main", "resources": {"limits": limits}}
        annotations = {"nvidia.com/use-gputype": ASKED_MODEL}
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
        pod = {"metadata": metadata, "spec": {"schedulerName": "hami-scheduler", "containers": [container]}}
        return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": self._names})

    async def _wait_bound(self, pods: Iterable[Pod]) -> None:
        missing = {pod.name for pod in pods}
        async with asyncio.timeout(WAIT_S):
            while missing := missing - self.kubelets.bound_s.keys():  # noqa: ASYNC110 - other processes bind
                await asyncio.sleep(0.05)

    async def _remove(self, pods: Iterable[Pod]) -> None:
        delete = self.fleet.client.delete
        await asyncio.gather(*(delete(PODS, pod.name, namespace="default", grace_period_s=0) for pod in pods))


@asynccontextmanager
async def open_stage(folder: Path, nodes: int) -> AsyncIterator[Stage]:
    """Start everything."""
    async with Fleet(folder, cards=1, memory_mib=CARD_MIB) as fleet, aiohttp.ClientSession() as session:
        for name, value in CLASSES.items():
            body: Any = {"metadata": {"name": name}, "value": value}
            await asyncio.to_thread(fleet.control_plane.api.create, PRIORITY_CLASSES, body)
        await fleet.add_nodes(nodes)
        await fleet.add_made([make_node("asked", cards=8, memory_mib=CARD_MIB // 2, slots=100, model=ASKED_MODEL)])
        plugins, kubelets = PlayedPlugins(fleet.client), PlayedKubelets(fleet.client, ends_after_s=0.05)
        async with plugins, kubelets:
            await fleet.start_gpuloom("--preemption=on", "--preemption-most-plans=32", through_proxy=False)
            await fleet.start_kube_scheduler(percent_of_nodes=100)
            yield Stage(fleet, kubelets, session, nodes)


async def measure(given: argparse.Namespace, folder: Path) -> None:
    """Measure and print."""
    async with open_stage(folder, given.nodes) as stage:
        for number in range(given.rounds):
            for phase in ("room", "storm"):
                await stage.run_phase(phase, number, given.per_s)
    room, storm = (summarize(stage.asked_s[phase]) for phase in ("room", "storm"))
    print_case("filter while pods come that find room", **room)
    print_case("filter while as many pods evict others", **storm)
    print_case("the second times the first", p50=storm["p50_ms"] / room["p50_ms"], p99=storm["p99_ms"] / room["p99_ms"])
    print_case("from the last victim gone to bound", goal_p50_ms=100, goal_p99_ms=1000, **summarize(stage.empty_s))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-s", type=float, default=10, help="important pods a second")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
