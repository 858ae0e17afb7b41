"""Typical pods: the shapes that a workload is made of, and how likely each is (section 3)."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gpuloom.simulation.pods import TracePod

_COVERED = 0.95


class TypicalShape(NamedTuple):
    """What typical pods of one kind ask for; host memory plays no part."""

    cpu_milli: int
    milli: int
    gpus: int
    spec: str


def find_typical(pods: Iterable[TracePod]) -> dict[TypicalShape, float]:
    """Return the most frequent shapes that cover 95 % of the pods, most frequent first, with their probability."""
    counts = count_shapes(pods)
    needed = _COVERED * counts.total()
    chosen: dict[TypicalShape, int] = {}
    covered = 0
    for shape, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= needed:
            break
        chosen[shape] = count
        covered += count
    return {shape: count / covered for shape, count in chosen.items()}


def count_shapes(pods: Iterable[TracePod]) -> Counter[TypicalShape]:
    """Count the pods of each shape."""
    return Counter(
        TypicalShape(shape.cpu_milli, shape.milli, shape.gpus, shape.spec) for shape in (pod.shape for pod in pods)
    )
