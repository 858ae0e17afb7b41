"""``gpuloom monitor``: one node's monitor as a process (device plugin 16.1)."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pynvml
from cyclopts import Parameter

from gpuloom.cli.durations import Duration
from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import connect, run_until_signal
from gpuloom.cli.simulatedcards import load_cards
from gpuloom.node.errors import NodeError
from gpuloom.node.monitor.cards import CardUseSource
from gpuloom.node.monitor.nvidia import NvidiaCardUse
from gpuloom.node.monitor.process import NodeMonitor
from gpuloom.node.monitor.settings import MonitorSettings
from gpuloom.node.monitor.simulated import SimulatedCardUse

_DEFAULT = MonitorSettings(node_name="")
_RESYNC = timedelta(seconds=_DEFAULT.resync_interval_s)
_SHORTEST_RESYNC = timedelta(seconds=10)


def run_monitor(
    *,
    node_name: Annotated[str, Parameter(env_var=["NODE_NAME", "NodeName"])],
    hook_path: Annotated[Path, Parameter(env_var="HOOK_PATH")] = _DEFAULT.hook_path,
    metrics_bind_address: str = _DEFAULT.metrics_bind_address,
    metrics_auth: bool = _DEFAULT.metrics_auth,
    legacy_metrics: bool = _DEFAULT.legacy_metrics,
    resync_interval: Annotated[Duration, Parameter(env_var="HAMI_RESYNC_INTERVAL")] = _RESYNC,
    resource_name: str = _DEFAULT.resource_name,
    priority_name: str = _DEFAULT.priority_name,
    pod_resources_socket: Path = _DEFAULT.pod_resources_socket,
    mig_lock: Path = _DEFAULT.mig_lock,
    cards: str = "",
    kubeconfig: str = "",
    log_format: LogForm = "json",
) -> None:
    """Tell Prometheus who uses this node's cards, and keep priorities and promises.

    Parameters
    ----------
    node_name:
        Name of this node in the cluster.
    hook_path:
        Folder of the containers' directories, as this process sees it: the device plugin's hook path and vgpu.
    metrics_bind_address:
        Where metrics are served, host:port; without a host on all interfaces.
    metrics_auth:
        Whether metrics are served by HTTPS, to those alone whose token may get /metrics.
    legacy_metrics:
        Whether metrics are given under the names of HAMi before 2.9 as well.
    resync_interval:
        So long the directory of a pod that is not known is kept, such as 5m.
    resource_name:
        Name of the resource that the kubelet counts.
    priority_name:
        Name of the resource with which containers ask for a priority.
    pod_resources_socket:
        Where the kubelet tells which pod holds which devices.
    mig_lock:
        File that is there while a card is being divided.
    cards:
        Simulate these cards instead of asking the NVIDIA driver: the path of a machine description (TOML), or the name
        of one that comes with gpuloom (see gpuloom device-plugin --help).
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    log_format:
        How log lines look.

    """
    configure_logs(log_format)
    if resync_interval < _SHORTEST_RESYNC:
        raise CommandError(
            f"--resync-interval {resync_interval.total_seconds():g} s: must be {_SHORTEST_RESYNC.total_seconds():g} s "
            "or more, because a new pod's directory is there before its pod is known",
            ExitCode.USAGE,
        )
    settings = MonitorSettings(
        node_name=node_name,
        hook_path=hook_path,
        metrics_bind_address=metrics_bind_address,
        metrics_auth=metrics_auth,
        legacy_metrics=legacy_metrics,
        resync_interval_s=resync_interval.total_seconds(),
        resource_name=resource_name,
        priority_name=priority_name,
        pod_resources_socket=pod_resources_socket,
        mig_lock=mig_lock,
    )
    run_until_signal(_serve(settings, cards, kubeconfig), failures=(NodeError,))


async def _serve(settings: MonitorSettings, cards: str, kubeconfig: str) -> None:
    async with (
        _open_cards(settings.node_name, cards) as source,
        connect(kubeconfig) as client,
        NodeMonitor(settings, client, source) as monitor,
    ):
        # Whoever started us learns the port that was free.
        sys.stdout.write(f"{monitor.url}/metrics\n")
        sys.stdout.flush()
        await monitor.run()


@asynccontextmanager
async def _open_cards(node_name: str, cards: str) -> AsyncIterator[CardUseSource]:
    if cards:
        yield SimulatedCardUse(load_cards(node_name, cards))
        return
    async with NvidiaCardUse(pynvml) as driver:
        yield driver
