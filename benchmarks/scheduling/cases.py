"""The parts of the benchmark by name."""

from collections.abc import Callable, Sequence

from benchmarks.scheduling.calls import run_calls
from benchmarks.scheduling.decisions import run_decisions
from benchmarks.scheduling.memory import run_memory
from benchmarks.scheduling.vendors import run_vendors

PARTS: dict[str, Callable[..., None]] = {"decisions": run_decisions, "calls": run_calls, "memory": run_memory}
"""Those that are run if none is named."""


def run(parts: Sequence[str], nodes: tuple[int, ...], *, with_oracle: bool, most_of: str) -> None:
    """Run some parts, all but that about vendors if none is named."""
    for part in parts or PARTS:
        if part == "vendors":
            run_vendors(nodes, most_of=most_of)
        else:
            PARTS[part](nodes, with_oracle=with_oracle)
