"""Evicting pods for people: asking first, then one eviction after which the pod is gone."""

import asyncio
import sys

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import PODS, ApiError, KubeClient, NotFoundError, TooManyRequestsError
from gpuloom.kube.eviction import evict
from gpuloom.wire.objects import Pod

POLL_S = 0.5


def confirm(question: str, *, unasked: str, refused: str) -> None:
    """Ask on the terminal.

    Raises CommandError with ``unasked`` where there is nobody to ask, with ``refused`` where the answer is not yes.
    """
    if not sys.stdin.isatty():
        raise CommandError(unasked, ExitCode.USAGE)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError(refused)


async def evict_pod(client: KubeClient, pod: Pod, timeout_s: float, *, waits_for_budgets: bool) -> None:
    """Evict one pod and wait until it is gone; while a PodDisruptionBudget forbids it, wait or give up.

    Raises CommandError.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await _ask_to_leave(client, pod, waits_for_budgets=waits_for_budgets)
            while await _is_there(client, pod):  # noqa: ASYNC110 - asked of the API server, nothing here tells
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise CommandError(f"pod {pod.full_name} is not gone after {timeout_s:g} s: look at its events") from error
    sys.stdout.write(f"pod {pod.full_name} evicted\n")


async def _ask_to_leave(client: KubeClient, pod: Pod, *, waits_for_budgets: bool) -> None:
    while True:
        try:
            await evict(client, namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid)
        except NotFoundError:
            return
        except TooManyRequestsError as error:
            if not waits_for_budgets:
                raise CommandError(f"pod {pod.full_name} is not evicted: {error}") from error
            await asyncio.sleep(POLL_S)
        except ApiError as error:
            raise CommandError(str(error)) from error
        else:
            return


async def _is_there(client: KubeClient, pod: Pod) -> bool:
    try:
        return (await client.get(PODS, pod.name, namespace=pod.namespace)).metadata.uid == pod.metadata.uid
    except NotFoundError:
        return False
