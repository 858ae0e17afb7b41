"""``gpuloom simulate``: how well policies pack pods on a cluster that stands in files."""

import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from gpuloom.cli.asking.progress import show_progress
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.simulating.resultsoutput import RESULT_FORMS
from gpuloom.cli.simulating.seeds import read_seeds
from gpuloom.cli.simulating.written import check_folder, write_whole
from gpuloom.simulation.bound import has_solver
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.experiment import Experiment, run_experiment
from gpuloom.simulation.modes import Mode
from gpuloom.simulation.picture import draw_curves
from gpuloom.simulation.policies import find_policy
from gpuloom.simulation.reading.checks import check_pods
from gpuloom.simulation.reading.traces import read_nodes, read_pods, read_pods_for
from gpuloom.simulation.results import average
from gpuloom.simulation.what_if import add_nodes, find_avoided, remove_nodes, scale_pods

_NO_SOLVER = "--bound needs SciPy: install it with pip install '.[simulate]' in a checkout, or leave --bound out"


def run_simulate(
    *,
    nodes: str,
    pods: str,
    policy: str,
    mode: Mode = "A",
    seeds: str = "42-51",
    output: Annotated[Literal["table", "json", "csv"], Parameter(name=["--output", "-o"])] = "table",
    plot: Path | None = None,
    workload: str = "",
    add_nodes: str = "",
    remove_nodes: str = "",
    cpu_pods_avoid: str = "",
    scale_pods: Annotated[float, Parameter(validator=Number(gt=0, lte=1000))] = 1.0,
    bound: bool | None = None,
    times: Annotated[bool, Parameter(negative=())] = False,
    processes: Annotated[int, Parameter(validator=Number(gte=0, lte=1024))] = 0,
) -> None:
    """Let pods arrive at an empty cluster and tell how much of its GPUs each policy leaves idle.

    Nothing is asked of any cluster. The same files, flags and seeds give the same output, unless times are asked for.

    Parameters
    ----------
    nodes:
        File of nodes: openb's CSV, or a YAML list with the same words; also compressed (.gz, .xz).
    pods:
        File of pods, in the same forms.
    policy:
        Names of policies, separated by commas: binpack, spread and first-fit are gpuloom's own; fragmentation too,
        with parameters for each mode; Random, DotProd, GpuClustering, GpuPacking, BestFit and FGD are
        published ones.
    mode:
        Who places pods without GPUs: the policy (A), the default rule of kube-scheduler (B), or nobody, because they
        are left out (C).
    seeds:
        Seeds of the order in which pods arrive: numbers and ranges, separated by commas.
    output:
        Form of the answer; table tells means over the seeds, csv single runs, json both.
    plot:
        Also draw a picture of allocation over arrivals into this SVG file.
    workload:
        File of pods of which policies learn what is typical; without it the pods themselves.
    add_nodes:
        What if there were more: a100:8x4 adds 4 nodes with 8 GPUs of model a100 each; several separated by commas.
    remove_nodes:
        What if there were fewer: as --add-nodes.
    cpu_pods_avoid:
        What if pods without GPUs preferred other nodes, in mode B: a100:8 for those with 8 GPUs of model a100; several
        separated by commas.
    scale_pods:
        What if pods came so many times as often.
    bound:
        Tell what no policy can beat (a linear program for each seed); by default if SciPy is there.
    times:
        Tell how long decisions took, which is never the same twice.
    processes:
        How many processes work at once; 0 for as many as there are cores.

    """
    try:
        experiment = _read_experiment(nodes, pods, policy, mode, seeds, workload)
        experiment = _change(experiment, added=add_nodes, removed=remove_nodes, factor=scale_pods)
        if cpu_pods_avoid:
            experiment = replace(experiment, avoided=_find_avoided(experiment, cpu_pods_avoid, nodes))
        experiment = replace(experiment, bounded=_wants_bound(bound), times=times)
        if plot is not None:
            _check_picture(plot)
        with show_progress("simulating") as report:
            results = run_experiment(experiment, processes=processes, report=report)
    except SimulationError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    except BrokenProcessPool as error:
        raise CommandError("a process of the simulation was killed, perhaps for memory: give --processes 1") from error
    except KeyboardInterrupt as error:
        raise CommandError("stopped before the end: nothing is written") from error
    means = average(results)
    if plot is not None:
        title = f"{Path(pods).name}, mode {mode}, seeds {seeds}"
        write_whole(plot, draw_curves(means, title))
    RESULT_FORMS[output](results, means)


def _read_experiment(nodes: str, pods: str, policy: str, mode: Mode, seeds: str, workload: str) -> Experiment:
    policies = tuple(dict.fromkeys(find_policy(name) for name in policy.split(",")))
    numbers = read_seeds(seeds)
    listed_nodes = read_nodes(nodes)
    listed_pods, note = read_pods_for(pods, listed_nodes)
    if note:
        sys.stderr.write(f"gpuloom: {note}\n")
    check_pods(pods, listed_pods, policies)
    typical = read_pods(workload) if workload else listed_pods
    return Experiment(listed_nodes, listed_pods, typical, policies, mode, numbers)


def _change(experiment: Experiment, *, added: str, removed: str, factor: float) -> Experiment:
    """Return the experiment as it would be if nodes or pods were others."""
    nodes = add_nodes(experiment.nodes, added) if added else experiment.nodes
    nodes = remove_nodes(nodes, removed) if removed else nodes
    pods = scale_pods(experiment.pods, factor) if factor != 1 else experiment.pods
    return replace(experiment, nodes=nodes, pods=pods)


def _find_avoided(experiment: Experiment, groups: str, file: str) -> frozenset[str]:
    if experiment.mode != "B":
        raise SimulationError(
            f"--cpu-pods-avoid {groups!r}: mode {experiment.mode} has no pods that kube-scheduler places:"
            " expected --mode B"
        )
    return find_avoided(experiment.nodes, groups, file)


def _check_picture(path: Path) -> None:
    if path.suffix.lower() != ".svg":
        raise SimulationError(f"{path}: expected a name that ends in .svg, the only form of pictures")
    check_folder(path)


def _wants_bound(bound: bool | None) -> bool:  # noqa: FBT001 - the flag as it was given
    if bound and not has_solver():
        raise CommandError(_NO_SOLVER, ExitCode.USAGE)
    return has_solver() if bound is None else bound
