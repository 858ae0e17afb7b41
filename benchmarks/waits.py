"""How long pods wait for a busy node and for a card that becomes free, through the real kube-scheduler.

``PYTHONPATH=tests .venv/bin/python benchmarks/waits.py`` creates 40 pods at once with room on one node only; its played
device plugin takes 100 ms for an Allocate, and then deletes the pod that fills a card for which another has waited
longer than kube-scheduler's backoff: once with watches as they are, once with watches that lag 300 ms behind. Last it
counts how often an important pod is tried in five seconds while less important ones fill all nodes, for each value of
``--refused-nodes``.
"""

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

import structlog
from figures import print_case

from harness.waits import bind_at_once, count_tries, free_a_card, open_fleet

TRIES_S = 5.0


async def measure(given: argparse.Namespace, folder: Path) -> None:
    """Measure and print."""
    for number in range(given.runs):
        directory = folder / f"many-{number}"
        async with open_fleet(directory, cards=4, allocate_s=0.1, through_proxy=False) as (fleet, accounts):
            took_s = await bind_at_once(fleet, accounts, given.pods)
        print_case("pods at once for one node", pods=given.pods, allocate_ms=100, goal_s=4.4, seconds=took_s)
    async with open_fleet(folder / "free", cards=1, allocate_s=0.01) as (fleet, accounts):
        for lag_s in (0.0, 0.3):
            times = [await free_a_card(fleet, accounts, lag_s=lag_s, number=number) for number in range(given.runs)]
            print_case(
                "a card becomes free", lag_s=lag_s, goal_s=1, median_s=statistics.median(times), worst_s=max(times)
            )
    for way in ("unresolvable", "failed"):
        tries = await count_tries(folder / f"tries-{way}", way, nodes=given.nodes, for_s=TRIES_S)
        print_case("tries of a pod that waits", nodes=given.nodes, refused_nodes=way, seconds=TRIES_S, tries=tries)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=100, help="for the count of tries")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
