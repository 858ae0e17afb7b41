"""How a command runs: one event loop, stopped by signals; failures become exit codes."""

import asyncio
import resource
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

from gpuloom.cli.outcomes import CommandError, ExitCode, first_line
from gpuloom.kube import KubeClient
from gpuloom.kube.credentials import load_default
from gpuloom.kube.errors import ApiError, CredentialsError, tell_failure
from gpuloom.kube.lists import ListOptions
from gpuloom.kube.resources import NODES

_CONNECT_TIMEOUT_S = 10.0
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_DESCRIPTORS = 65_536
"""More than all connections that listeners take, and those to the API server."""


def run_until_signal(work: Coroutine[Any, Any, None], *, failures: tuple[type[Exception], ...] = ()) -> None:
    """Run ``work`` to its end or until the first SIGINT, SIGTERM or SIGQUIT, which cancels it and counts as a good end.

    Raises CommandError for what a person can do something about: no way to the cluster, files and ports, and the
    exceptions named in ``failures``.
    """
    _run(work, _STOPPING, failures)


def run_to_end(
    work: Coroutine[Any, Any, None], *, failures: tuple[type[Exception], ...] = (), is_short: bool = False
) -> None:
    """Run ``work`` to its end; a signal, also that the terminal is closed, cancels it and is none.

    Raises CommandError as :func:`run_until_signal` does, KeyboardInterrupt when a signal came before the end. What is
    short does without the faster loop, which takes long to load.
    """
    # nohup has the closing of the terminal ignored.
    closing = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    if _run(work, (*_STOPPING, *closing), failures, is_short=is_short):
        raise KeyboardInterrupt


def _run(
    work: Coroutine[Any, Any, None],
    stopping: Sequence[signal.Signals],
    failures: tuple[type[Exception], ...],
    *,
    is_short: bool = False,
) -> bool:
    """Run to the end or the first of these signals; tell whether one came first."""
    _raise_descriptor_limit()
    run = asyncio.run
    if not is_short:
        from uvloop import run  # noqa: PLC0415 - it takes long to load
    try:
        return run(_stop_on_signals(work, stopping))
    except Exception as error:
        cause = _first_cause(error)
        if isinstance(cause, (CommandError, BrokenPipeError)):
            raise cause from None
        if isinstance(cause, ApiError):
            raise CommandError(tell_failure(cause), ExitCode.UNKNOWN) from error
        if isinstance(cause, CredentialsError):
            raise CommandError(first_line(cause), ExitCode.UNKNOWN) from error
        if isinstance(cause, (OSError, *failures)):
            raise CommandError(first_line(cause)) from error
        raise


def connect(kubeconfig: str) -> KubeClient:
    """Make a client from ``--kubeconfig``, ``KUBECONFIG``, the pod's service account or ``~/.kube/config``.

    Raises CredentialsError with one line that says what to do.
    """
    return KubeClient(load_default(kubeconfig or None))


async def check_cluster(client: KubeClient) -> None:
    """Ask the API server for one node, so that a wrong address or account shows at once.

    Raises ApiError.
    """
    await client.list_page(NODES, ListOptions(), limit=1)


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as the machine allows: by default, many containers have 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _stop_on_signals(work: Coroutine[Any, Any, None], numbers: Sequence[signal.Signals]) -> bool:
    task = asyncio.create_task(work, name="command")
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        # Only once: a second signal must not interrupt the cleaning up.
        if not stopping.is_set():
            stopping.set()
            task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, stop)
    await asyncio.wait({task})
    if task.cancelled() and stopping.is_set():
        return True
    task.result()
    return False


def _first_cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
