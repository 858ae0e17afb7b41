"""Memory of the state: cards, reservations and what is remembered, in a process that loads nothing else."""

import subprocess
import sys
from itertools import product
from pathlib import Path

PODS_PER_NODE = (8, 20)
_SCRIPT = """
import gc, sys
from benchmarks.figures import memory_mib
import os
from benchmarks.scheduling.state import fill_state
cluster = fill_state(int(sys.argv[1]), int(sys.argv[2]))
gc.collect()
print(memory_mib(os.getpid()))
"""


def run_memory(sizes: tuple[int, ...], *, with_oracle: bool) -> None:  # noqa: ARG001 - every part takes it
    """Print the resident memory for clusters of so many nodes, with few and with many pods on each."""
    from benchmarks.figures import print_case  # noqa: PLC0415

    root = Path(__file__).parents[2]
    for nodes, pods_per_node in product(sizes, PODS_PER_NODE):
        pods = nodes * pods_per_node
        command = [sys.executable, "-c", _SCRIPT, str(nodes), str(pods)]
        result = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        print_case("memory of the state", nodes=nodes, pods=pods, rss_mib=float(result.stdout))
