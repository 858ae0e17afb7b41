"""``gpuloom scheduler``: the scheduler as a process."""

import asyncio
import gc
import logging
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.outcomes import CommandError
from gpuloom.cli.process import check_cluster, run_until_signal
from gpuloom.cli.scheduler_flags import make_settings
from gpuloom.kube import RateLimit
from gpuloom.kube.credentials import load_default
from gpuloom.scheduler.flags import SchedulerFlags, Seconds
from gpuloom.scheduler.outlook.file import WorkloadError
from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.recording.live import run_recorded
from gpuloom.scheduler.recording.liveclient import RecordingClient
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.serving.addresses import CannotServeError
from gpuloom.vendors.profile import ProfileError


def run_scheduler(
    *,
    kubeconfig: str = "",
    log_format: LogForm = "json",
    record: Path | None = None,
    device_config_file: Path | None = None,
    web_bind: str = "",
    monitor_interval: Seconds = 0.0,
    monitor_token_file: str = "",
    vendor_dir: Path | None = None,
    workload_file: Path | None = None,
    flags: Annotated[SchedulerFlags, Parameter(name="*")] = SchedulerFlags(),  # noqa: B008 - frozen
) -> None:
    """Serve webhook, filter and bind to kube-scheduler.

    Parameters
    ----------
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    log_format:
        How log lines look.
    record:
        Write everything that the scheduler is told and answers to this file, for gpuloom replay.
    device_config_file:
        Device configuration (device-config.yaml); without it the values of HAMi's chart.
    web_bind:
        Address of the pages and of their API, host:port, empty for none. Beyond the loopback interface it needs
        a certificate.
    monitor_interval:
        How often the pages ask the nodes' monitors what is in use, such as 1m; 0 for never.
    monitor_token_file:
        File with the token for monitors, of the audience gpuloom-monitor; without it they are asked by HTTP.
    vendor_dir:
        Folder with profiles of more vendors, or of shipped ones in their place (*.toml).
    workload_file:
        Pods that the policy fragmentation is to expect (YAML), in place of those that it learns.

    """
    configure_logs(log_format, level=logging.DEBUG if flags.debug else logging.INFO)
    try:
        settings = make_settings(flags, os.environ, device_config_file, vendor_dir, workload_file)
    except (SettingsError, ProfileError, WorkloadError) as error:
        raise CommandError(str(error)) from error
    web = {"web_bind": web_bind, "monitor_interval_s": monitor_interval, "monitor_token_file": monitor_token_file}
    run_until_signal(_serve(settings, kubeconfig, record, web), failures=(CannotServeError,))


_OBJECTS_OF_FIRST_LISTS = 1_000_000
"""Objects that the collector leaves alone while the first lists are read: none of them is garbage."""


_WHEN_SYNCED = (2_000, 500, 10)
"""Few objects at a time, which takes 2 to 3 ms; 50,000, as at the start, stopped the process for 50. Older ones seldom:
hardly any of them is garbage."""


async def _freeze_when_synced(process: SchedulerProcess) -> None:
    """Keep the collector away from what stays for good, so that it never stops the process for long."""
    gc.set_threshold(_OBJECTS_OF_FIRST_LISTS)
    await process.wait_synced()
    gc.freeze()
    gc.set_threshold(*_WHEN_SYNCED)


async def _serve(settings: SchedulerSettings, kubeconfig: str, record: Path | None, web: dict[str, Any]) -> None:
    limits: dict[str, Any] = {"rate_limit": RateLimit(settings.kube_qps, settings.kube_burst)}
    if settings.kube_timeout_s:
        limits["timeout_s"] = settings.kube_timeout_s
    async with RecordingClient(load_default(kubeconfig or None), **limits) as client:
        await check_cluster(client)
        async with AsyncExitStack() as stack:
            running = run_recorded(settings, client, record) if record else SchedulerProcess(settings, client)
            process = await stack.enter_async_context(running)
            if web["web_bind"]:
                from gpuloom.web.server import WebPart, WebSettings  # noqa: PLC0415 - many run without pages

                presented = process.certificates.presented if process.certificates else None
                part = WebPart(WebSettings(**web), process.parts, client, presented)
                await stack.enter_async_context(part)
            # Whoever started us learns the port that was free.
            sys.stdout.write(f"{process.url}\n")
            sys.stdout.flush()
            freezing = asyncio.create_task(_freeze_when_synced(process))
            try:
                await process.wait_failed()
            finally:
                freezing.cancel()
