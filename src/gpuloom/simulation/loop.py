"""One run: every pod of a stream arrives, is placed or has failed, and what happened is noted (sections 1 and 2)."""

import random
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from gpuloom.simulation.cluster import TraceCluster
from gpuloom.simulation.measure import Journal
from gpuloom.simulation.modes import DefaultScheduler, Mode
from gpuloom.simulation.pods import TracePod
from gpuloom.simulation.policies.policy import PolicyMaker, PolicySetup

Progress = Callable[[int], None]
"""Told now and then how many pods have arrived."""
_ARRIVALS_A_REPORT = 500


def place_all(
    cluster: TraceCluster,
    arriving: Sequence[TracePod],
    maker: PolicyMaker,
    *,
    workload: tuple[TracePod, ...],
    mode: Mode,
    seed: int,
    avoided: Collection[str] = (),
    progress: Progress = lambda _: None,
) -> Journal:
    """Let pods arrive at a cluster, which is full afterwards, and tell what happened to each.

    workload  pods of which policies learn what is typical
    avoided   names of nodes that pods without GPUs leave alone while others have room, in mode B
    """
    policy = maker(PolicySetup(cluster, workload, mode, _make_generator(seed, "policy")))
    others = DefaultScheduler(cluster, _make_generator(seed, "kube-scheduler"), avoided)
    arrived_in_all = allocated_in_all = 0
    arrived: list[int] = []
    allocated: list[int] = []
    seconds: list[float] = []
    failures: list[bool] = []
    for number, pod in enumerate(arriving):
        shape, cluster.arrivals = pod.shape, number
        start = time.perf_counter()
        fits = cluster.find_fitting(shape)
        choice = None
        if np.count_nonzero(fits):
            decides = others if mode == "B" and shape.is_cpu_only else policy
            choice = decides.choose(shape, fits)
        seconds.append(time.perf_counter() - start)
        arrived_in_all += shape.demand
        if choice is not None:
            cluster.place(shape, choice)
            allocated_in_all += shape.demand
        failures.append(choice is None)
        arrived.append(arrived_in_all)
        allocated.append(allocated_in_all)
        if number % _ARRIVALS_A_REPORT == 0:
            progress(number)
    return Journal(arrived, allocated, failures, [pod.shape.gpus for pod in arriving], seconds)


def _make_generator(seed: int, purpose: str) -> random.Random:
    """Return random numbers that differ from those of the stream, and from each other's."""
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - an experiment that can be repeated
