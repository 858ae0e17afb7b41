"""In which order pods arrive: the list shuffled by a seed, and as much as 1.3 times the cluster has (section 1)."""

import random
from collections.abc import Iterable, Sequence

from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import TracePod

_MOST_ARRIVED = 1.3


def make_arrivals(pods: Sequence[TracePod], capacity: int, seed: int) -> list[TracePod]:
    """Return the pods in the order in which they arrive.

    capacity  milli of GPU that the cluster has
    Raises SimulationError when no pod asks for a GPU: then there is nothing to fill the cluster with.
    """
    if not any(pod.shape.demand for pod in pods):
        raise SimulationError("no pod of the list asks for a GPU: list at least one with num_gpu of 1 or more")
    listed = sorted(pods, key=lambda pod: pod.name)
    rng = random.Random(seed)  # noqa: S311 - an experiment that can be repeated
    arriving = list(listed)
    rng.shuffle(arriving)
    arrived = sum(pod.shape.demand for pod in arriving)
    most = _MOST_ARRIVED * capacity
    if arrived > most:
        while arrived > most:
            arrived -= arriving.pop(rng.randrange(len(arriving))).shape.demand
        return arriving
    while True:
        pod = listed[rng.randrange(len(listed))]
        # The share of one GPU, not of all: as published.
        if arrived + pod.shape.milli > most:
            return arriving
        arriving.append(pod)
        arrived += pod.shape.demand


def take_arrived(arriving: Iterable[TracePod], most: int) -> list[TracePod]:
    """Return the pods of a stream that have arrived before more than so much was asked for, in milli of GPU."""
    arrived, taken = 0, []
    for pod in arriving:
        arrived += pod.shape.demand
        if arrived > most:
            break
        taken.append(pod)
    return taken
