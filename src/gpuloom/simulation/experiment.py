"""What is to be simulated, as one value, and how it is run: on as many processes as there are cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from gpuloom.simulation.arrivals import make_arrivals, take_arrived
from gpuloom.simulation.bound import bound_allocation
from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.modes import Mode, select_pods
from gpuloom.simulation.pods import TracePod
from gpuloom.simulation.policies import POLICY_MAKERS
from gpuloom.simulation.results import RunResult, make_result


@dataclass(frozen=True, slots=True)
class Experiment:
    """Policies over the same streams of pods.

    workload  pods of which policies learn what is typical
    policies  by the names of the table of policies
    avoided   names of nodes that pods without GPUs leave alone while others have room, in mode B
    bounded   whether to tell what no policy can beat, which needs SciPy
    times     whether to tell how long decisions took, which differs from run to run
    """

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    workload: tuple[TracePod, ...]
    policies: tuple[str, ...]
    mode: Mode
    seeds: tuple[int, ...]
    avoided: frozenset[str] = frozenset()
    bounded: bool = False
    times: bool = False


class _Task(NamedTuple):
    """A part that one process does: a policy over the stream of a seed, or what bounds all policies there."""

    policy: str | None
    seed: int


def run_experiment(
    experiment: Experiment, *, processes: int = 0, report: Callable[[int, int], None] = lambda _done, _all: None
) -> list[RunResult]:
    """Run every policy with every seed; return results by policy as named, then by seed as named.

    processes  how many work at once; 0 for as many as there are cores
    report     told how many parts are done, of how many
    Raises SimulationError.
    """
    runs = [_Task(policy, seed) for policy in experiment.policies for seed in experiment.seeds]
    # Bounds first: they take longest.
    tasks = [*(_Task(None, seed) for seed in experiment.seeds if experiment.bounded), *runs]
    results: dict[_Task, RunResult] = {}
    bounds: dict[int, float] = {}
    report(0, len(tasks))
    for task, answer in _work(experiment, tasks, processes or len(os.sched_getaffinity(0))):
        if isinstance(answer, RunResult):
            results[task] = answer
        else:
            bounds[task.seed] = round(answer, 2)
        report(len(results) + len(bounds), len(tasks))
    return [replace(results[run], bound=bounds.get(run.seed)) for run in runs]


def _work(experiment: Experiment, tasks: list[_Task], processes: int) -> Iterator[tuple[_Task, RunResult | float]]:
    """Do all tasks and give their answers as they come."""
    if processes == 1 or len(tasks) == 1:
        yield from ((task, _do(experiment, task)) for task in tasks)
        return
    # A process of its own start: what this one has opened is not shared.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(tasks)), context, _keep, (experiment,)) as pool:
        futures = {pool.submit(_do_kept, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_kept: list[Experiment] = []
"""In a process that works for another: what it works on, sent once and not with every task."""


def _keep(experiment: Experiment) -> None:
    _kept[:] = [experiment]


def _do_kept(task: _Task) -> RunResult | float:
    return _do(_kept[0], task)


def _do(experiment: Experiment, task: _Task) -> RunResult | float:
    cluster = TraceCluster(experiment.nodes)
    arriving = make_arrivals(select_pods(experiment.pods, experiment.mode), cluster.capacity, task.seed)
    if task.policy is None:
        return bound_allocation(experiment.nodes, take_arrived(arriving, cluster.capacity))
    journal = place_all(
        cluster,
        arriving,
        POLICY_MAKERS[task.policy],
        workload=experiment.workload,
        mode=experiment.mode,
        seed=task.seed,
        avoided=experiment.avoided,
    )
    return make_result(
        task.policy, experiment.mode, task.seed, journal, capacity=cluster.capacity, times=experiment.times
    )
