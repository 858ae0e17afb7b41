"""Draining a card: it is closed to new pods, and who is on it is evicted, until nobody is."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from gpuloom.cli.asking.progress import show_work
from gpuloom.cli.cardlookup import tell_cordon
from gpuloom.cli.evicting import evict_pod
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.kube import FULL_PODS, WRITE_DEADLINE_S, ApiError, KubeClient
from gpuloom.kube.cordons import NodeCard, write_cordon
from gpuloom.kube.errors import tell_failure
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.shares import list_held_cards

Agree = Callable[[Sequence[FullPod]], Awaitable[None]]
"""Is asked before pods are evicted; raises CommandError where they are not to be."""

_STAYS = "the card stays cordoned (gpuloom uncordon opens it)"
_MAY_STAY = "the card may be cordoned (gpuloom uncordon opens it)"
_MOST_REASONS = 3
_SETTLING_S = WRITE_DEADLINE_S + 1.0
"""So long after a card was closed a Binding may arrive that was sent before the scheduler heard of it."""


async def list_pods_on(client: KubeClient, place: NodeCard) -> list[FullPod]:
    """List the bound pods that hold a share of a card.

    Raises ApiError.
    """
    pods, _ = await client.list_all(FULL_PODS, field_selector=f"spec.nodeName={place.node}")
    return [pod for pod in pods if not pod.is_over and place.uuid in list_held_cards(pod.annotations)]


async def drain(client: KubeClient, place: NodeCard, pods: Sequence[FullPod], agree: Agree, timeout_s: float) -> None:
    """Close a card and send away who is on it: ``pods``, and those that come before it is closed.

    Nothing changes before ``agree`` has agreed, nor where there is nobody to evict but who leaves already. Raises
    CommandError, which says so where the card stays closed all the same; ApiError when it could not be closed.
    """
    agreed = await _ask_for(pods, frozenset(), agree)
    await _close(client, place)
    try:
        await _empty(client, place, agreed, agree, timeout_s)
    except CommandError as error:
        raise CommandError(f"{error}; {_STAYS}", error.code) from error
    except ApiError as error:
        raise CommandError(f"{tell_failure(error)}; {_STAYS}", ExitCode.UNKNOWN) from error
    except asyncio.CancelledError:
        sys.stderr.write(f"gpuloom: stopped: {_STAYS}\n")
        raise


async def _close(client: KubeClient, place: NodeCard) -> None:
    try:
        changed = await write_cordon(client, place, is_closed=True)
    except ApiError as error:
        if error.outcome_unknown:
            raise CommandError(f"{tell_failure(error)}; {_MAY_STAY}", ExitCode.UNKNOWN) from error
        raise
    except asyncio.CancelledError:
        sys.stderr.write(f"gpuloom: stopped: {_MAY_STAY}\n")
        raise
    sys.stdout.write(tell_cordon(place, is_closed=True, changed=changed))


async def _ask_for(pods: Sequence[FullPod], agreed: frozenset[str], agree: Agree) -> frozenset[str]:
    """Ask for the pods that nobody has been asked for; return for which it was agreed."""
    new = [pod for pod in pods if not pod.is_terminating and pod.metadata.uid not in agreed]
    if new:
        await agree(new)
    return agreed.union(pod.metadata.uid for pod in new)


async def _empty(client: KubeClient, place: NodeCard, agreed: frozenset[str], agree: Agree, timeout_s: float) -> None:
    """Evict who is on a card until nobody is, and nobody can come any more whose Binding was sent before it was closed.

    Those that were decided before and are not sent yet the scheduler refuses (binding 2 step 4).
    """
    now = asyncio.get_running_loop().time
    closed_at = now()
    end, evicted = closed_at + timeout_s, 0
    while True:
        settles_in_s = closed_at + _SETTLING_S - now()
        pods = await list_pods_on(client, place)
        if not pods:
            if settles_in_s <= 0:
                break
            with show_work("waiting for pods that may be on their way to the card"):
                await asyncio.sleep(settles_in_s)
            continue
        if evicted and now() > end:
            raise CommandError(f"pods still come to the card: {', '.join(pod.full_name for pod in pods)}")
        asked_at = now()
        agreed = await _ask_for(pods, agreed, agree)
        # People may take their time.
        end += now() - asked_at
        await _evict_all(client, pods, end - now() if evicted else timeout_s)
        evicted += len(pods)
    if evicted:
        sys.stdout.write(f"card {place.uuid} of node {place.node} drained\n")


async def _evict_all(client: KubeClient, pods: Sequence[FullPod], timeout_s: float) -> None:
    with show_work(f"evicting {tell_count(len(pods), 'pod')}"):
        outcomes = await asyncio.gather(*(evict_pod(client, pod, timeout_s) for pod in pods), return_exceptions=True)
    failures = [one for one in outcomes if one is not None]
    for failure in failures:
        if not isinstance(failure, CommandError):
            raise failure
    if failures:
        count = f"{len(failures)} of {len(pods)} pods stay: " if len(pods) > 1 else ""
        more = f" and {len(failures) - _MOST_REASONS} more" if len(failures) > _MOST_REASONS else ""
        raise CommandError(f"{count}{'; '.join(map(str, failures[:_MOST_REASONS]))}{more}")
