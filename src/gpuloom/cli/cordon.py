"""``gpuloom cordon``, ``uncordon`` and ``drain-card``: close a card to new pods, open it, send its pods away."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom.cli.asking.flags import ClusterFlags
from gpuloom.cli.asking.printing import print_value, write_lines
from gpuloom.cli.asking.progress import show_work
from gpuloom.cli.asking.running import run_for_people
from gpuloom.cli.cardlookup import find_card
from gpuloom.cli.draining import DrainPlan, plan_drain
from gpuloom.cli.durations import Duration
from gpuloom.cli.evicting import confirm, evict_pod
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.kube import FULL_PODS, ApiError, KubeClient
from gpuloom.kube.cordons import NodeCard, write_cordon
from gpuloom.model.uuids import card_id
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares

_CLUSTER = ClusterFlags()
_ALLOCATED = "-allocated"
"""At the end of each family's annotation of the cards that a pod holds."""


def cordon_card(card: Name, /, *, cluster: ClusterFlags = _CLUSTER) -> None:
    """Close a card to new pods; those that are on it stay.

    Parameters
    ----------
    card:
        UUID of the card, the beginning of it, card/UUID or NODE/INDEX.

    """
    run_for_people(_set_cordon(card, cluster, is_closed=True))


def uncordon_card(card: Name, /, *, cluster: ClusterFlags = _CLUSTER) -> None:
    """Open a card to new pods again.

    Parameters
    ----------
    card:
        UUID of the card, the beginning of it, card/UUID or NODE/INDEX.

    """
    run_for_people(_set_cordon(card, cluster, is_closed=False))


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
    """Close a card to new pods, then ask and evict those that are on it. After a no the card stays closed.

    Before anything changes it tells which pods are on the card, and whether each would find room elsewhere: one after
    another, oldest first, as if all had left and the card took no new pods. Cards and quotas are looked at, and
    whether nodes take pods at all; taints, node selectors and other resources are not.

    PodDisruptionBudgets are obeyed: an eviction that one forbids is tried again until the time is over.

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
        run_for_people(_drain(card, cluster, yes=yes, force=force, timeout_s=timeout.total_seconds()))
        return ExitCode.YES
    plans: list[DrainPlan] = []
    run_for_people(_look_ahead(card, cluster, plans.append))
    (plan,) = plans
    if output == "text":
        write_lines(plan.lines())
    else:
        print_value(plan, output)
    return ExitCode.YES if plan.fits else ExitCode.NO


async def _set_cordon(card: str, cluster: ClusterFlags, *, is_closed: bool) -> None:
    async with open_cluster(cluster.way) as (client, _):
        found = await find_card(client, card)
        changed = await write_cordon(client, found, is_closed=is_closed)
        word = "cordoned" if is_closed else "uncordoned"
        sys.stdout.write(f"card {found.uuid} of node {found.node} {word if changed else f'already {word}'}\n")


async def _drain(card: str, cluster: ClusterFlags, *, yes: bool, force: bool, timeout_s: float) -> None:
    async with open_cluster(cluster.way) as (client, _):
        found = await find_card(client, card)
        pods = await _pods_on(client, found)
        await _tell_plan(client, found, pods)
        await write_cordon(client, found, is_closed=True)
        sys.stdout.write(f"card {found.uuid} of node {found.node} cordoned\n")
        # Until the card was closed another pod may have come.
        pods = await _pods_on(client, found)
        if not pods:
            return
        _check(pods, force=force)
        if not yes:
            _confirm(pods, found)
        with show_work(f"evicting {tell_count(len(pods), 'pod')}"):
            await asyncio.gather(*(evict_pod(client, pod, timeout_s) for pod in pods))
        sys.stdout.write(f"card {found.uuid} of node {found.node} drained\n")


async def _look_ahead(card: str, cluster: ClusterFlags, take: Callable[[DrainPlan], object]) -> None:
    async with open_cluster(cluster.way) as (client, _):
        found = await find_card(client, card)
        take(await plan_drain(client, found.node, found.uuid, await _pods_on(client, found)))


async def _tell_plan(client: KubeClient, card: NodeCard, pods: Sequence[FullPod]) -> None:
    """Tell where the pods would go, or why that cannot be told: who may evict pods need not see all of the cluster."""
    try:
        plan = await plan_drain(client, card.node, card.uuid, pods)
    except ApiError as error:
        sys.stderr.write(f"gpuloom: whether the pods would find room elsewhere cannot be told: {error}\n")
    else:
        write_lines(plan.lines())


async def _pods_on(client: KubeClient, card: NodeCard) -> list[FullPod]:
    pods, _ = await client.list_all(FULL_PODS, field_selector=f"spec.nodeName={card.node}")
    return [pod for pod in pods if not pod.is_over and _is_on(pod, card.uuid)]


def _is_on(pod: Pod, uuid: str) -> bool:
    for key, text in pod.annotations.items():
        if key.endswith(_ALLOCATED):
            try:
                if any(card_id(share.uuid) == uuid for shares in decode_shares(text) for share in shares):
                    return True
            except WireError:
                continue
    return False


def _check(pods: Sequence[FullPod], *, force: bool) -> None:
    alone = [pod.full_name for pod in pods if not pod.metadata.owner_references]
    if alone and not force:
        raise CommandError(f"nothing will make these pods anew: {', '.join(alone)}; evict them with --force")


def _confirm(pods: Sequence[Pod], card: NodeCard) -> None:
    for pod in pods:
        sys.stderr.write(f"  {pod.full_name}\n")
    count = tell_count(len(pods), "pod")
    confirm(
        f"Evict {'this pod' if len(pods) == 1 else f'these {count}'}?",
        unasked=f"{count} would be evicted from {card.uuid}: say so with --yes",
        refused="nothing evicted; the card stays cordoned (gpuloom uncordon opens it)",
    )
