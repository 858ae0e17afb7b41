"""``gpuloom bench``: how fast gpuloom schedules on this machine. Generator and cases come with a checkout."""

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import gpuloom
from gpuloom.cli.logs import configure_logs
from gpuloom.cli.outcomes import CommandError

Part = Literal["decisions", "calls", "memory", "vendors"]


def run_bench(
    *parts: Part,
    nodes: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (1000, 5000, 10000),
    oracle: bool = True,
    most_of: str = "",
) -> None:
    """Generate clusters and print one JSON object for each case.

    Parameters
    ----------
    parts:
        What to measure; by default all but "vendors", which takes minutes.
    nodes:
        Sizes of the clusters.
    oracle:
        Also measure the plain walk over all nodes, and print how many times slower it is.
    most_of:
        Of "vendors": the word of a family that has three quarters of the nodes; only this one is asked for. By default
        all families have as many.

    """
    root = Path(gpuloom.__file__).parents[2]
    if not (root / "benchmarks" / "scheduling").is_dir():
        raise CommandError("the benchmark comes with a checkout of gpuloom: clone the repository and run it there")
    sys.path[:0] = [str(root), str(root / "tests")]
    configure_logs("console", level=logging.ERROR)
    cases = import_module("benchmarks.scheduling.cases")
    cases.run(parts, nodes, with_oracle=oracle, most_of=most_of)
