"""What settings of kube-scheduler change at how many pods a second are bound through gpuloom.

``PYTHONPATH=tests .venv/bin/python benchmarks/kubescheduler.py`` binds pods as ``bindrate.py`` does, without node
locks, and compares each setting with a run without it just before: pods a second, and processor time a pod.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from bindrate import SPREAD, Run, run_gpuloom
from figures import print_case

from harness.fleet import Fleet

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "clientConnection: 50 calls a second, 100 at once": {"clientConnection": {"qps": 50, "burst": 100}},
    "parallelism: 1": {"parallelism": 1},
    "parallelism: 64": {"parallelism": 64},
    "percentageOfNodesToScore: 100": {"percentageOfNodesToScore": 100},
}
"""Otherwise there are 5,000 calls a second, and kube-scheduler's defaults: 16, and 42 per cent of 1,000 nodes."""


async def compare(given: argparse.Namespace, folder: Path) -> None:
    """Run and print one setting after the other."""
    async with Fleet(folder) as fleet:
        await fleet.add_nodes(given.nodes)
        for name, settings in SETTINGS.items():
            pairs = []
            for _ in range(given.pairs):
                usual = await run_gpuloom(fleet, given.pods, [SPREAD], locks=False)
                pairs.append((usual, await run_gpuloom(fleet, given.pods, [SPREAD], locks=False, settings=settings)))
            print_case(name, nodes=given.nodes, pods=given.pods, pairs=given.pairs, **describe(pairs))


def describe(pairs: list[tuple[Run, Run]]) -> dict[str, float]:
    """Set runs without and with a setting side by side, medians of pairs."""
    figures = [
        {
            "pods_per_s": changed.rate,
            "rate_ratio": changed.rate / usual.rate,
            "cpu_ms": changed.all_ms,
            "cpu_ratio": changed.all_ms / usual.all_ms,
            "kube_scheduler_ms": changed.spent_ms["kube-scheduler"],
            "usual_kube_scheduler_ms": usual.spent_ms["kube-scheduler"],
        }
        for usual, changed in pairs
    ]
    return {name: statistics.median(one[name] for one in figures) for name in figures[0]}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
