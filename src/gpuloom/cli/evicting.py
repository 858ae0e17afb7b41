"""Evicting pods for people: asking first, then one eviction after which the pod is gone."""

import sys

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import KubeClient
from gpuloom.kube.eviction import NotEvictedError, evict_and_wait
from gpuloom.wire.objects import Pod


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


async def evict_pod(client: KubeClient, pod: Pod, timeout_s: float) -> None:
    """Evict one pod and wait until it is gone, also while a PodDisruptionBudget forbids it.

    Raises CommandError.
    """
    try:
        await evict_and_wait(client, pod, timeout_s, waits_for_budgets=True)
    except NotEvictedError as error:
        raise CommandError(str(error)) from error
    sys.stdout.write(f"pod {pod.full_name} evicted\n")
