"""``gpuloom scheduler``: flags to the settings of a scheduler process (scheduler 0.2)."""

import sys
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.outcomes import CommandError
from gpuloom.cli.process import check_cluster, connect, run_until_signal
from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.server import ServerError
from gpuloom.scheduler.settings import SchedulerSettings

# Not from an instance: that would read the vendor's profile for --help.
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(SchedulerSettings)}
_LOCK_TIMEOUT = timedelta(seconds=_DEFAULTS["node_lock_timeout_s"])
_LOCK_RETRY_TIMEOUT = timedelta(seconds=_DEFAULTS["node_lock_retry_timeout_s"])

Policy = Literal["binpack", "spread"]


def run_scheduler(
    *,
    http_bind: Annotated[str, Parameter(name="--http_bind")] = _DEFAULTS["http_bind"],
    cert_file: Annotated[str, Parameter(name="--cert_file")] = _DEFAULTS["cert_file"],
    key_file: Annotated[str, Parameter(name="--key_file")] = _DEFAULTS["key_file"],
    scheduler_name: str = _DEFAULTS["scheduler_name"],
    node_scheduler_policy: Policy = "binpack",
    gpu_scheduler_policy: Policy = "spread",
    force_overwrite_default_scheduler: bool = _DEFAULTS["force_overwrite_default_scheduler"],
    node_lock_timeout: timedelta = _LOCK_TIMEOUT,
    node_lock_retry_timeout: timedelta = _LOCK_RETRY_TIMEOUT,
    kubeconfig: str = "",
    log_format: LogForm = "json",
) -> None:
    """Serve webhook, filter and bind to kube-scheduler.

    Parameters
    ----------
    http_bind:
        Address to listen on, host:port; port 0 for a free one.
    cert_file:
        Certificate for HTTPS; needs --key_file too. Without both the server speaks HTTP.
    key_file:
        Key of the certificate.
    scheduler_name:
        Name that pods with cards get as their scheduler.
    node_scheduler_policy:
        How nodes are chosen unless a pod says otherwise.
    gpu_scheduler_policy:
        How cards are chosen unless a pod says otherwise.
    force_overwrite_default_scheduler:
        Whether pods that name the default scheduler are taken over.
    node_lock_timeout:
        After this long the lock of a node no longer counts, such as 5m.
    node_lock_retry_timeout:
        How long a bind waits for the lock of its node, such as 28s.
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    log_format:
        How log lines look.

    """
    configure_logs(log_format)
    if bool(cert_file) != bool(key_file):
        raise CommandError("--cert_file and --key_file belong together: give both for HTTPS, none for HTTP")
    for flag, file in (("--cert_file", cert_file), ("--key_file", key_file)):
        if file and not Path(file).is_file():
            raise CommandError(f"{flag} {file}: there is no such file")
    settings = SchedulerSettings(
        scheduler_name=scheduler_name,
        http_bind=http_bind,
        cert_file=cert_file,
        key_file=key_file,
        node_scheduler_policy=node_scheduler_policy,
        gpu_scheduler_policy=gpu_scheduler_policy,
        force_overwrite_default_scheduler=force_overwrite_default_scheduler,
        node_lock_timeout_s=node_lock_timeout.total_seconds(),
        node_lock_retry_timeout_s=node_lock_retry_timeout.total_seconds(),
    )
    run_until_signal(_serve(settings, kubeconfig), failures=(ServerError,))


async def _serve(settings: SchedulerSettings, kubeconfig: str) -> None:
    async with connect(kubeconfig) as client:
        await check_cluster(client)
        async with SchedulerProcess(settings, client) as process:
            # Whoever started us learns the port that was free.
            sys.stdout.write(f"{process.url}\n")
            sys.stdout.flush()
            await process.wait_failed()
