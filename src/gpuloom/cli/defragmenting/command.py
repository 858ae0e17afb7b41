"""The command ``gpuloom defrag``."""

import asyncio
import sys
import time
from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number

from gpuloom.cli.asking.flags import ClusterFlags
from gpuloom.cli.asking.printing import print_value, write_lines
from gpuloom.cli.asking.progress import show_progress
from gpuloom.cli.asking.running import run_for_people
from gpuloom.cli.defragmenting.planoutput import PlanOutput, tell_plan
from gpuloom.cli.defragmenting.reading import read_cluster
from gpuloom.cli.defragmenting.tidyingoutput import TidyingOutput, tell_tidying
from gpuloom.cli.defragmenting.wanted import read_wanted
from gpuloom.cli.durations import Duration
from gpuloom.cli.evicting import confirm, read_timeout
from gpuloom.cli.hamischeduler import tell_of_hami
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.engine.planning.defragmentation.search import Progress
from gpuloom.engine.steps import Steps
from gpuloom.kube import KubeClient
from gpuloom.scheduler.defragmentation.cluster import MovingCluster
from gpuloom.scheduler.defragmentation.moving import MoveError, MoveReport, Moving, make_moves
from gpuloom.scheduler.defragmentation.planning import order_moves, order_steps, plan_for
from gpuloom.web.views.explaining import PodError, admit_pod
from gpuloom.web.views.source import Source
from gpuloom.wire.hostpods import HostPod

_CLUSTER = ClusterFlags()
_R = TypeVar("_R")


def run_defrag(
    *,
    wanted: Annotated[Name, Parameter(name="--for", allow_leading_hyphen=True)] = "",
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "",
    max_moves: Annotated[int, Parameter(validator=Number(gte=1))] = 10,
    force: Annotated[bool, Parameter(negative=())] = False,
    execute: Annotated[bool, Parameter(negative=())] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    timeout: Duration = timedelta(minutes=5),
    cluster: ClusterFlags = _CLUSTER,
    output: Annotated[Literal["text", "json", "yaml"], Parameter(name=["--output", "-o"])] = "text",
) -> ExitCode:
    """Tell which pods would have to move so that a pod fits: as few as possible, each to where it fits now.

    Without --for it tells the moves that strand less of what is free, those that do most per move first. Stranded is
    what pods to come cannot use on average, as the policy fragmentation measures it.

    Nothing is changed without --execute. With it the moves are made, after asking: one pod is evicted at a time, and
    the next when the one that its owner made anew runs. Meanwhile the cards that become free are cordoned; they are
    opened again at the end, whatever it is. Nothing further is evicted when a PodDisruptionBudget forbids the first
    eviction, or a later one for too long, or when a pod does not run again in time.

    A pod moves only if something makes it anew, and never to the node that it left. Cards, quotas and
    kube-scheduler's own filters are looked at; volumes and pod affinity are not. A PodDisruptionBudget that lets a pod
    not go now is named.

    Exit code 0 if the pod fits, now or after the moves, or if moves strand less; 1 otherwise.

    Parameters
    ----------
    wanted:
        The pod that shall fit: the file of its manifest (- is standard input), or whole cards of a model: a100=4.
        Without it: moves that strand less.
    namespace:
        Namespace of the pod where the manifest names none; without it the context's.
    max_moves:
        More moves than these are not made, and no plan for a pod.
    force:
        Let pods move too that nothing makes anew.
    execute:
        Make the moves.
    yes:
        Do not ask.
    timeout:
        So long at most until an evicted pod is gone, and again until the one made anew runs, such as 5m.
    output:
        Form of the plan.

    """
    if execute and output != "text":
        raise CommandError(f"--output {output} tells a plan: leave --execute out", ExitCode.USAGE)
    told: list[PlanOutput | TidyingOutput] = []
    timeout_s = read_timeout(timeout)

    async def run() -> None:
        async with open_cluster(cluster.way) as (client, default):
            source, found = await read_cluster(client, forced=force)
            meaning: PlanOutput | TidyingOutput
            if wanted:
                name, pod = _read_pod(source, wanted, namespace or default)
                meaning, orders = _plan(found, name, pod, max_moves, timeout_s)
                if execute and orders:
                    _refuse_member(name, pod)
            else:
                meaning, orders = _tidy(found, max_moves, timeout_s)
            told.append(meaning)
            _print(meaning, output)
            if execute and orders:
                await tell_of_hami(client)
                if not yes:
                    await _confirm(sum(len(order.pods) for order in orders))
                for order in orders:
                    await _make(client, order)

    run_for_people(run())
    return ExitCode.YES if told[0].found else ExitCode.NO


def _print(plan: PlanOutput | TidyingOutput, output: Literal["text", "json", "yaml"]) -> None:
    if output == "text":
        write_lines(plan.lines(time.time()))
    else:
        print_value(plan, output)


async def _confirm(count: int) -> None:
    pods = f"{count} pod{'s' if count > 1 else ''}"
    await confirm(f"Evict {pods}?", unasked=f"{pods} would be evicted: say so with --yes", refused="nothing evicted")


async def _make(client: KubeClient, moving: Moving) -> None:
    try:
        await make_moves(client, moving, MoveReport.by_lines(lambda line: sys.stdout.write(f"{line}\n")))
    except MoveError as error:
        raise CommandError(str(error)) from error
    except asyncio.CancelledError:
        sys.stderr.write("gpuloom: stopped: nobody else moves, and the cards are open again\n")
        raise


def _read_pod(source: Source, text: str, namespace: str) -> tuple[str, HostPod]:
    """Read for which pod room is to be made, and how people call it.

    Raises CommandError in one line, also for a pod that asks for no card.
    """
    asked = read_wanted(text, source)
    pod = _admit(source, asked.manifest, asked.namespace or namespace)
    if not source.state.settings.read_demands(pod):
        raise CommandError(f"{asked.name} asks for no card: moves of pods on cards make no room for it")
    return asked.name, pod


def _refuse_member(name: str, pod: HostPod) -> None:
    """Make no moves for a pod of a group: nobody is evicted in vain because the others find no room.

    Raises CommandError in one line.
    """
    if pod.own_group:
        raise CommandError(
            f"nobody is evicted for {name}: it starts together with the group {pod.own_group}, "
            "and whether the others find room too is not known; leave --execute out for the plan"
        )


def _plan(
    cluster: MovingCluster, name: str, pod: HostPod, most_moves: int, timeout_s: float
) -> tuple[PlanOutput, Sequence[Moving]]:
    """Look for moves that make room for a pod; return what they mean, and what is to be done for them."""
    vendor = next(iter(cluster.state.settings.read_demands(pod)))
    plan = _search(plan_for(cluster, pod, most_moves))
    orders = [order_moves(cluster, plan, timeout_s)] if plan is not None and plan.moves else []
    return tell_plan(name, vendor, plan, cluster), orders


def _tidy(cluster: MovingCluster, most_moves: int, timeout_s: float) -> tuple[TidyingOutput, Sequence[Moving]]:
    """Look for moves that strand less; return what they mean, and what is to be done for them."""
    plan = _search(cluster.tidy(most_moves).plan())
    return tell_tidying(plan, cluster), order_steps(cluster, plan, timeout_s)


def _admit(source: Source, manifest: bytes, namespace: str) -> HostPod:
    try:
        pod, verdict = admit_pod(source, manifest, namespace)
    except PodError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    if not verdict.allowed:
        raise CommandError(f"the pod would be denied: {verdict.message}")
    return pod


def _search(steps: Generator[Progress, None, _R]) -> _R:
    with show_progress("looking at nodes") as report:
        taken = Steps(steps)
        for progress in taken:
            report(*progress)
        return taken.result
