"""How many pods a second are bound through the real kube-scheduler, against an extender that only posts the binding.

``PYTHONPATH=tests .venv/bin/python benchmarks/bindrate.py`` runs in turn on one control plane: the other extender,
gpuloom without node locks, gpuloom with them (``--node-lock=always``), and with ``--empty-with-locks`` the other
extender with as many writes a pod as that. With ``--annotated`` its bindings carry as many bytes as gpuloom's.
1,000 nodes that are objects only, 2,000 pods that exist before kube-scheduler starts, kube-scheduler's limits on calls
raised to 5,000 a second. A process of its own plays the device plugins: one write a pod (phase), with locks two (phase,
lock); beside the other extender writes of the same kind. Nothing else watches meanwhile. A process that also added up
what every card holds had too little of two cores for that: beside the faster extender its plugins fell up to 1,200 pods
behind, so that the last bindings cost no plugin's writes, and watching and adding up cost 0.1 to 0.6 ms a pod more
beside gpuloom.

A run's rate is that of all its pods, from the first binding to the last. ``middle`` leaves out the first and the last
tenth; it tells who was ahead for a while. ``served`` is the rate of pods that their plugin is done with. Processor time
is counted until the plugins are done.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog
from figures import cpu_seconds, print_case
from pluginprocess import PluginProcess

from gpuloom.kube import PODS
from harness.accounts import Accounts
from harness.fleet import Fleet

TIMEOUT_S = 300.0
QUIET_S = 2.0
TICK_S = 0.001
"""The loop's clock stands still while events are taken that came together, perhaps all of a small cluster's."""
SPREAD = "--node-scheduler-policy=spread"
AS_IS: Mapping[str, Any] = MappingProxyType({})


async def clear(fleet: Fleet) -> None:
    """Delete all pods."""
    gate = asyncio.Semaphore(16)

    async def delete(name: str) -> None:
        async with gate:
            await fleet.client.delete(PODS, name, namespace="default", grace_period_s=0)

    async with Accounts(fleet.client) as accounts:
        await asyncio.gather(*(delete(pod.name) for pod in list(accounts.pods.values())))
        await accounts.wait_for(lambda: not accounts.pods)


async def settle(accounts: Accounts) -> None:
    """Wait until no object has changed for a while: a scheduler that starts asks every node's plugin for a sign."""
    while True:
        accounts.changed.clear()
        try:
            async with asyncio.timeout(QUIET_S):
                await accounts.changed.wait()
        except TimeoutError:
            return


@dataclass(frozen=True, slots=True)
class Run:
    """One run: pods bound and pods served a second, and processor time a pod in ms, by program.

    ``plugins`` plays the plugins.
    """

    rate: float
    middle_rate: float
    served_rate: float
    spent_ms: dict[str, float]

    @property
    def all_ms(self) -> float:
        """What all programs but the played plugins took."""
        return sum(self.spent_ms.values()) - self.spent_ms["plugins"]


def find_rate(times_s: Iterable[float], *, without: float = 0.0) -> float:
    """Return how many a second there were, without this part of them at the beginning and at the end."""
    ordered = sorted(times_s)
    cut = int(len(ordered) * without)
    first, last = cut, len(ordered) - 1 - cut
    return (last - first) / max(ordered[last] - ordered[first], TICK_S)


async def measure(
    fleet: Fleet,
    plugins: PluginProcess,
    pods: int,
    extender_url: str,
    extender_pid: int,
    settings: Mapping[str, Any] = AS_IS,
) -> Run:
    """Let kube-scheduler, with these settings, bind so many pods."""
    async with Accounts(fleet.client) as accounts:
        await fleet.add_pods({f"pod-{number}": 1000 for number in range(pods)})
        await settle(accounts)
    await fleet.start_kube_scheduler(extender_url, settings=settings)
    pids = {**fleet.control_plane.pids, "extender": extender_pid, "plugins": plugins.pid}
    before_s = {name: cpu_seconds(pid) for name, pid in pids.items()}
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await plugins.wait_served(pods)
        spent_ms = {name: (cpu_seconds(pid) - before_s[name]) / pods * 1000 for name, pid in pids.items()}
    finally:
        await asyncio.to_thread(fleet.control_plane.stop_scheduler)
    bound_s = plugins.bound_s
    run = Run(find_rate(bound_s), find_rate(bound_s, without=0.1), find_rate(plugins.served_s), spent_ms)
    await clear(fleet)
    return run


async def run_gpuloom(
    fleet: Fleet, pods: int, flags: list[str], *, locks: bool, settings: Mapping[str, Any] = AS_IS
) -> Run:
    """Measure gpuloom, beside a kube-scheduler with these settings."""
    await fleet.start_gpuloom(*flags, f"--node-lock={'always' if locks else 'auto'}", through_proxy=False)
    async with PluginProcess(fleet.control_plane.kubeconfig, locks=locks) as plugins:
        run = await measure(fleet, plugins, pods, fleet.extender_url, fleet.gpuloom_pid, settings)
    await fleet.stop_gpuloom()
    return run


async def run_empty(fleet: Fleet, pods: int, *, locks: bool, annotated: bool = False) -> Run:
    """Measure the extender that only binds."""
    script = Path(__file__).with_name("emptyextender.py")
    command = (sys.executable, script, fleet.control_plane.kubeconfig, *["--annotated"] * annotated)
    extender = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert extender.stdout is not None
        url = (await extender.stdout.readline()).decode().strip()
        async with PluginProcess(fleet.control_plane.kubeconfig, dummy=True, locks=locks) as plugins:
            return await measure(fleet, plugins, pods, url, extender.pid)
    finally:
        extender.terminate()
        await extender.wait()


async def compare(given: argparse.Namespace, folder: Path) -> None:
    """Run the rounds and print them."""
    async with Fleet(folder) as fleet:
        await fleet.add_nodes(given.nodes)
        rounds = []
        for number in range(given.pairs):
            empty = await run_empty(fleet, given.pods, locks=False, annotated=given.annotated)
            own = await run_gpuloom(fleet, given.pods, given.flags, locks=False)
            locked = await run_gpuloom(fleet, given.pods, given.flags, locks=True)
            rounds.append(describe(own, empty) | describe_locked(own, locked))
            if given.empty_with_locks:
                slow = await run_empty(fleet, given.pods, locks=True)
                rounds[-1] |= {"empty_locked_pods_per_s": slow.rate, "locked_ratio": locked.rate / slow.rate}
            print_case("bind rate, pair", pair=number, **rounds[-1])
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    print_case("bind rate", **vars(given), **medians)


def describe_locked(own: Run, locked: Run) -> dict[str, float]:
    """Set gpuloom without and with node locks side by side."""
    return {
        "locked_pods_per_s": locked.rate,
        "locked_served_per_s": locked.served_rate,
        "gain": own.rate / locked.rate,
        "served_gain": own.served_rate / locked.served_rate,
        "locked_all_cpu_ms": locked.all_ms,
        "cpu_gain": locked.all_ms / own.all_ms,
        **{f"locked_{name}_ms": spent_ms for name, spent_ms in locked.spent_ms.items()},
    }


def describe(own: Run, empty: Run) -> dict[str, float]:
    """Set a pair side by side. The share of processor time tells, on a busy machine, what the rates would tell."""
    return {
        "gpuloom_pods_per_s": own.rate,
        "empty_pods_per_s": empty.rate,
        "ratio": own.rate / empty.rate,
        "middle_ratio": own.middle_rate / empty.middle_rate,
        "gpuloom_served_per_s": own.served_rate,
        "empty_served_per_s": empty.served_rate,
        "served_ratio": own.served_rate / empty.served_rate,
        "gpuloom_all_cpu_ms": own.all_ms,
        "empty_all_cpu_ms": empty.all_ms,
        "cpu_ratio": empty.all_ms / own.all_ms,
        **{f"gpuloom_{name}_ms": spent_ms for name, spent_ms in own.spent_ms.items()},
        **{f"empty_{name}_ms": spent_ms for name, spent_ms in empty.spent_ms.items()},
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--empty-with-locks", action="store_true", help="run the other extender with two writes too")
    parser.add_argument("--annotated", action="store_true", help="let the other extender's bindings be as long as ours")
    parser.add_argument("flags", nargs="*", default=[SPREAD], help="of gpuloom's, after --")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
