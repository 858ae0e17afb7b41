"""What a cluster reaches with each policy, and what the simulator says of it: openb's pods on nodes in openb's mix.

``PYTHONPATH=tests .venv/bin/python benchmarks/filling.py`` starts a control plane for each run: nodes that are objects,
gpuloom's scheduler, the real kube-scheduler, played device plugins. Pods are created one after another; each is tried
in that order. Shares of all GPUs are in per cent, when 100 and 130 % had been asked for. kube-scheduler offers
gpuloom all nodes with a percentage of 100, else a sample: with 0 about half of 200 nodes. With
``--node-choice scheduler`` it chooses among all that fit, by its scores and gpuloom's.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from figures import print_case

from gpuloom.simulation.arrivals import make_arrivals
from gpuloom.simulation.cluster import TraceCluster
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.measure import Journal, allocation_curve
from gpuloom.simulation.policies import POLICY_MAKERS
from harness.arriving import fill, read_list, read_mix

POLICIES = ("fragmentation", "binpack", "spread", "first-fit")
TIMEOUT_S = 900.0


async def compare(given: argparse.Namespace) -> None:
    """Fill a cluster with each policy and each percentage, and print what it reached."""
    nodes, pods = read_mix(given.nodes), read_list(given.pods)
    capacity = TraceCluster(nodes).capacity
    arriving = make_arrivals(pods, capacity, given.seed)

    def tell(journal: Journal) -> dict[str, float]:
        curve = allocation_curve(journal, capacity)
        return {"A100": curve[99], "A130": curve[129], "failed": sum(journal.failed)}

    for policy in given.policy:
        maker = POLICY_MAKERS[policy]
        said = place_all(TraceCluster(nodes), arriving, maker, workload=pods, mode="B", seed=given.seed)
        for percent in given.percent:
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="gpuloom-filling-") as folder:
                found = await fill(
                    Path(folder), nodes, arriving,
                    policy=policy, workload=pods, percent_of_nodes=percent, timeout_s=TIMEOUT_S,
                    node_choice=given.node_choice,
                )  # fmt: skip
            print_case(
                "filling", policy=policy, node_choice=given.node_choice, percent_of_nodes=percent,
                nodes=len(nodes), gpus=capacity // 1000, pods=len(arriving), reached=tell(found), simulated=tell(said),
                seconds=time.monotonic() - began_s,
            )  # fmt: skip


def main() -> None:
    """Read the flags and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", default="default", choices=("default", "multigpu50", "gpushare100"))
    parser.add_argument("--policy", nargs="+", default=POLICIES, choices=POLICIES)
    parser.add_argument("--percent", nargs="+", type=int, default=(100, 0))
    parser.add_argument("--node-choice", default="extender", choices=("extender", "scheduler"))
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
