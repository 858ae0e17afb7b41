"""The parts of the benchmark by name."""

from collections.abc import Callable, Sequence

from benchmarks.scheduling.calls import run_calls
from benchmarks.scheduling.decisions import run_decisions
from benchmarks.scheduling.memory import run_memory

PARTS: dict[str, Callable[..., None]] = {"decisions": run_decisions, "calls": run_calls, "memory": run_memory}


def run(parts: Sequence[str], nodes: tuple[int, ...], *, with_oracle: bool) -> None:
    """Run some parts, all of them if none is named."""
    for part in parts or PARTS:
        PARTS[part](nodes, with_oracle=with_oracle)
