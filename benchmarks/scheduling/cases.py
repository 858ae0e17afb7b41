"""The parts of the benchmark by name."""

from collections.abc import Callable, Sequence

from benchmarks.scheduling.decisions import run_decisions

PARTS: dict[str, Callable[..., None]] = {"decisions": run_decisions}


def run(parts: Sequence[str], nodes: tuple[int, ...], *, with_oracle: bool) -> None:
    """Run some parts, all of them if none is named."""
    for part in parts or PARTS:
        PARTS[part](nodes, with_oracle=with_oracle)
