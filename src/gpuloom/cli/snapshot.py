"""``gpuloom snapshot``: the start of a recording, from a live cluster (recording 1)."""

import sys

import msgspec

from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.process import connect, run_to_end
from gpuloom.scheduler.recording.snapshot import take_snapshot
from gpuloom.scheduler.settings import SchedulerSettings


def run_snapshot(*, kubeconfig: str = "", log_format: LogForm = "console") -> None:
    """Print settings, nodes, quotas and the pods that ask for cards, as lines that gpuloom replay reads.

    Parameters
    ----------
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    log_format:
        How log lines look.

    """
    configure_logs(log_format)
    run_to_end(_print_snapshot(kubeconfig))


async def _print_snapshot(kubeconfig: str) -> None:
    async with connect(kubeconfig) as client:
        for line in await take_snapshot(client, SchedulerSettings()):
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
