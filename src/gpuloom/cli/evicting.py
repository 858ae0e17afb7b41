"""Evicting pods for people: asking first, then one eviction after which the pod is gone."""

import asyncio
import sys
from datetime import timedelta

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import ApiError, KubeClient
from gpuloom.kube.eviction import EvictionReport, NotEvictedError, evict_and_wait
from gpuloom.wire.objects import Pod


def read_timeout(timeout: timedelta) -> float:
    """Return how many seconds a ``--timeout`` is.

    Raises CommandError where it is none at all.
    """
    seconds = timeout.total_seconds()
    if seconds <= 0:
        raise CommandError(f"--timeout {seconds:g}s leaves no time: give more, such as 5m", ExitCode.USAGE)
    return seconds


async def confirm(question: str, *, unasked: str, refused: str) -> None:
    """Ask on the terminal.

    Raises CommandError with ``unasked`` where there is nobody to ask, with ``refused`` where the answer is not yes.
    """
    if not sys.stdin.isatty():
        raise CommandError(unasked, ExitCode.USAGE)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    await _wait_for_line()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError(refused)


async def _wait_for_line() -> None:
    """Wait for the answer as signals can end it: a call that reads one goes on after them."""
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), has_come.set)
    try:
        await has_come.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())


async def evict_pod(client: KubeClient, pod: Pod, timeout_s: float) -> None:
    """Evict one pod and wait until it is gone, also while a PodDisruptionBudget forbids it.

    Raises CommandError.
    """
    told: set[str] = set()

    def tell_delay(error: ApiError) -> None:
        why = str(error).partition("\n")[0]
        if why not in told:
            told.add(why)
            sys.stderr.write(f"gpuloom: pod {pod.full_name} is not evicted yet, and tried again: {why}\n")

    try:
        report = EvictionReport(delayed=tell_delay)
        await evict_and_wait(client, pod, timeout_s, waits_for_budgets=True, report=report)
    except NotEvictedError as error:
        raise CommandError(str(error)) from error
    sys.stdout.write(f"pod {pod.full_name} evicted\n")
