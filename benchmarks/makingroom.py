"""How long the room that victims leave stays empty, and what a storm of preemptions costs other Filter calls.

``PYTHONPATH=tests .venv/bin/python benchmarks/makingroom.py`` starts a real API server, kube-scheduler and ``gpuloom
scheduler``. Important pods come at a steady pace, one for each node: in one phase to empty nodes, in the next to nodes
that less important ones fill, so that each evicts one. Meanwhile ``asking.py`` asks about pods that fit elsewhere.
Phases take turns, so that both see the same machine. ``computing`` is for how long the scheduler computed during a
call, so others that compute on the machine count less. The scheduler and ``asking.py`` have the last processor, and
nobody else: a storm also doubles what API server, kube-scheduler and this process, which plays the kubelets, have to
do. With ``--together`` all share all processors.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog
from asking import Call, make_body
from companions import keep_off_last_processor, move_to, read_line, run, tell
from figures import print_case, summarize

from gpuloom.kube import PODS
from gpuloom.wire.objects import Pod
from harness.fleet import Fleet, make_node, make_share_pod
from harness.objects import create_priority_class
from harness.playedkubelets import PlayedKubelets
from harness.playedplugins import PlayedPlugins

CLASSES = {"low": 10, "high": 1000}
CARD_MIB = 10_000
ASKED_MODEL = "NVIDIA T4"
ASKED = 16
"""So many pods are asked about in turn; what was reserved for one is given back when it is asked about again."""
HERE = Path(__file__).parent
PHASES = ("room", "storm")
SETTLE_S = 1.0
WAIT_S = 120.0


class Stage:
    """A cluster on which pods come and go, and what was measured on it; `pids` are of the scheduler and who asks."""

    def __init__(self, fleet: Fleet, kubelets: PlayedKubelets, asker: "subprocess.Popen[bytes]", nodes: int) -> None:
        self.fleet = fleet
        self.kubelets = kubelets
        self.nodes = nodes
        self.pids = (fleet.gpuloom_pid, asker.pid)
        self.calls: dict[str, list[Call]] = {phase: [] for phase in PHASES}
        self.empty_s: list[float] = []
        self._asker = asker

    async def run_phase(self, phase: str, number: int, per_s: float) -> None:
        """Let important pods come: to empty nodes, or in a storm to full ones."""
        names = [f"low-{number}-{one}" for one in range(self.nodes if phase == "storm" else 0)]
        lows = await self._add(names, "low", terminationGracePeriodSeconds=30)
        await self._wait_bound(lows)
        await asyncio.sleep(SETTLE_S)
        tell(self._asker, "on")
        highs = await self._add_steadily([f"high-{phase}-{number}-{one}" for one in range(self.nodes)], per_s)
        tell(self._asker, "off")
        self.calls[phase] += msgspec.json.decode(await read_line(self._asker), type=list[Call])
        await self._wait_bound(highs)
        self.empty_s += self._find_empty_times(lows, highs)
        await self._remove(highs)

    async def _add_steadily(self, names: Iterable[str], per_s: float) -> list[Pod]:
        highs = list[Pod]()
        for name in names:
            highs += await self._add([name], "high")
            await asyncio.sleep(1 / per_s)
        return highs

    def _add(self, names: Iterable[str], importance: str, **spec: Any) -> Awaitable[list[Pod]]:
        return self.fleet.add_pods(dict.fromkeys(names, CARD_MIB), priorityClassName=importance, **spec)

    def _find_empty_times(self, lows: Sequence[Pod], highs: Sequence[Pod]) -> list[float]:
        """Return the seconds from when a node's victim was gone until the important pod was seen bound there."""
        node_of, gone_s = dict(self.kubelets.bound), self.kubelets.gone_s
        gone = {node_of[low.metadata.uid]: gone_s[low.name] for low in lows}
        bound = {node_of[high.metadata.uid]: self.kubelets.bound_s[high.name] for high in highs}
        return [bound[node] - gone[node] for node in gone]

    async def _wait_bound(self, pods: Iterable[Pod]) -> None:
        missing = {pod.name for pod in pods}
        async with asyncio.timeout(WAIT_S):
            while missing := missing - self.kubelets.bound_s.keys():  # noqa: ASYNC110 - other processes bind
                await asyncio.sleep(0.05)

    async def _remove(self, pods: Iterable[Pod]) -> None:
        delete = self.fleet.client.delete
        await asyncio.gather(*(delete(PODS, pod.name, namespace="default", grace_period_s=0) for pod in pods))


@asynccontextmanager
async def open_stage(folder: Path, nodes: int, *flags: str) -> AsyncIterator[Stage]:
    """Start everything; ``flags`` are given to the scheduler beside those that it needs."""
    async with Fleet(folder, cards=1, memory_mib=CARD_MIB) as fleet:
        for name, value in CLASSES.items():
            await asyncio.to_thread(create_priority_class, fleet.control_plane.api, name, value)
        await fleet.add_nodes(nodes)
        await fleet.add_made([make_node("asked", cards=8, memory_mib=CARD_MIB // 2, slots=100, model=ASKED_MODEL)])
        plugins, kubelets = PlayedPlugins(fleet.client), PlayedKubelets(fleet.client, ends_after_s=0.05)
        async with plugins, kubelets:
            await fleet.start_gpuloom("--preemption=on", "--preemption-most-plans=32", *flags, through_proxy=False)
            await fleet.start_kube_scheduler(percent_of_nodes=100)
            names = ["asked", *(f"node-{number}" for number in range(nodes))]
            bodies = [make_body(pod, names) for pod in await add_asked(fleet)]
            command = (sys.executable, HERE / "asking.py", fleet.extender_url, fleet.gpuloom_pid)
            with run(*command, stdin=subprocess.PIPE, log=folder / "asking.log") as asker:
                tell(asker, msgspec.json.encode(bodies).decode())
                yield Stage(fleet, kubelets, asker, nodes)


async def add_asked(fleet: Fleet) -> list[Pod]:
    """Create the pods that are asked about: small ones for cards of one model, which no scheduler places."""
    pods = [make_share_pod(f"asked-{number}", 100, schedulerName="nobody") for number in range(ASKED)]
    for pod in pods:
        pod["metadata"]["annotations"] = {"nvidia.com/use-gputype": ASKED_MODEL}
    return [await fleet.client.create(PODS, pod, namespace="default") for pod in pods]


async def measure(given: argparse.Namespace, folder: Path) -> None:
    """Measure and print."""
    last = None if given.together else keep_off_last_processor()
    async with open_stage(folder, given.nodes) as stage:
        if last is not None:
            move_to(last, *stage.pids)
        for number in range(given.rounds):
            for phase in PHASES:
                await stage.run_phase(phase, number, given.per_s)
    print_calls(stage.calls["room"], stage.calls["storm"])
    print_case("from the last victim gone to bound", goal_p50_ms=100, goal_p99_ms=1000, **summarize(stage.empty_s))


def print_calls(room: Sequence[Call], storm: Sequence[Call]) -> None:
    """Print how long calls took in both phases, and how long the scheduler computed meanwhile."""
    took = [summarize([call.took_s for call in calls]) for calls in (room, storm)]
    computing = [summarize([call.computing_s for call in calls]) for calls in (room, storm)]
    for case, figures, shares in zip(("that find room", "that evict others"), took, computing, strict=True):
        computed = {f"computing_{name}": shares[name] for name in ("p50_ms", "p99_ms")}
        print_case(f"filter while pods come {case}", **figures, **computed)
    print_case("the second times the first", goal_p99=1.3, **divide(*took))
    print_case("the second times the first, computing", **divide(*computing))


def divide(room: Mapping[str, float], storm: Mapping[str, float]) -> dict[str, float]:
    """Return how many times as long the calls in a storm took."""
    return {name: storm[f"{name}_ms"] / room[f"{name}_ms"] for name in ("p50", "p99")}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-s", type=float, default=10, help="important pods a second")
    parser.add_argument("--together", action="store_true", help="let all programs share all processors")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
