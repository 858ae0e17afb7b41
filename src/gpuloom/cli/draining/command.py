"""The command ``gpuloom drain-card``."""

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom.cli.asking.flags import ClusterFlags
from gpuloom.cli.asking.printing import print_value, write_lines
from gpuloom.cli.asking.running import run_for_people
from gpuloom.cli.cardlookup import find_card
from gpuloom.cli.draining.carrying_out import drain, list_pods_on
from gpuloom.cli.draining.plan import DrainPlan, plan_drain
from gpuloom.cli.durations import Duration
from gpuloom.cli.evicting import confirm, read_timeout
from gpuloom.cli.hamischeduler import tell_of_hami
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.kube import ApiError, KubeClient
from gpuloom.kube.cordons import NodeCard
from gpuloom.wire.fullpods import FullPod

_CLUSTER = ClusterFlags()


def drain_card(
    card: Name,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    force: Annotated[bool, Parameter(negative=())] = False,
    timeout: Duration = timedelta(minutes=5),
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    cluster: ClusterFlags = _CLUSTER,
    output: Annotated[Literal["text", "json", "yaml"], Parameter(name=["--output", "-o"])] = "text",
) -> ExitCode:
    """Ask, then close a card to new pods and evict those that are on it. After a no nothing has changed.

    Before it asks it tells which pods are on the card, and whether each would find room elsewhere: one after another,
    oldest first, as if all had left and the card took no new pods. Cards and quotas are looked at, and whether nodes
    take pods at all; taints, node selectors and other resources are not.

    PodDisruptionBudgets are obeyed: an eviction that one forbids is tried again until the time is over. However it
    ends, the card stays closed; gpuloom uncordon opens it. It looks for the last time 5 s after the card was closed or
    later: until then pods may come whose binding was under way.

    Parameters
    ----------
    card:
        UUID of the card, the beginning of it, card/UUID or NODE/INDEX.
    yes:
        Do not ask.
    force:
        Evict pods too that nothing will make anew.
    timeout:
        So long at most until all pods are gone, such as 5m.
    dry_run:
        Change nothing, only tell. Exit code 0 if all pods find room elsewhere, 1 otherwise.
    output:
        Form in which a dry run tells.

    """
    if not dry_run:
        if output != "text":
            raise CommandError(f"--output {output} tells what would happen: give --dry-run too", ExitCode.USAGE)
        run_for_people(_drain(card, cluster, yes=yes, force=force, timeout_s=read_timeout(timeout)))
        return ExitCode.YES
    plans: list[DrainPlan] = []
    run_for_people(_look_ahead(card, cluster, plans.append))
    (plan,) = plans
    if output == "text":
        write_lines(plan.lines())
    else:
        print_value(plan, output)
    return ExitCode.YES if plan.fits else ExitCode.NO


async def _drain(card: str, cluster: ClusterFlags, *, yes: bool, force: bool, timeout_s: float) -> None:
    async with open_cluster(cluster.way) as (client, _):
        place = await find_card(client, card)

        async def agree(pods: Sequence[FullPod]) -> None:
            _refuse_lone(pods, force=force)
            if not yes:
                await _confirm(pods, place)

        pods = await list_pods_on(client, place)
        await _tell_plan(client, place, pods)
        await tell_of_hami(client)
        await drain(client, place, pods, agree, timeout_s)


async def _look_ahead(card: str, cluster: ClusterFlags, take: Callable[[DrainPlan], object]) -> None:
    async with open_cluster(cluster.way) as (client, _):
        place = await find_card(client, card)
        take(await plan_drain(client, place.node, place.uuid, await list_pods_on(client, place)))


async def _tell_plan(client: KubeClient, place: NodeCard, pods: Sequence[FullPod]) -> None:
    """Tell where the pods would go, or why that cannot be told: who may evict pods need not see all of the cluster."""
    try:
        plan = await plan_drain(client, place.node, place.uuid, pods)
    except ApiError as error:
        sys.stderr.write(f"gpuloom: whether the pods would find room elsewhere cannot be told: {error}\n")
    else:
        write_lines(plan.lines())


def _refuse_lone(pods: Sequence[FullPod], *, force: bool) -> None:
    alone = [pod.full_name for pod in pods if not pod.metadata.owner_references]
    if alone and not force:
        raise CommandError(f"nothing will make these pods anew: {', '.join(alone)}; evict them with --force")


async def _confirm(pods: Sequence[FullPod], place: NodeCard) -> None:
    for pod in pods:
        sys.stderr.write(f"  {pod.full_name}\n")
    count = tell_count(len(pods), "pod")
    await confirm(
        f"Evict {'this pod' if len(pods) == 1 else f'these {count}'}?",
        unasked=f"{count} would be evicted from {place.uuid}: say so with --yes",
        refused="nobody was evicted",
    )
