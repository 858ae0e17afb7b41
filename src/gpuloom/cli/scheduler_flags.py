"""The flags of ``gpuloom scheduler`` in groups, and the settings that they make (scheduler 0.2 and 10).

Names are HAMi's where HAMi has the flag, so that its chart can start this scheduler. Switches restore HAMi's behaviour
where gpuloom's differs; the first value is the default.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom.cli.outcomes import CommandError
from gpuloom.engine.options import DeviceSort, ScoreSlots
from gpuloom.scheduler.health import HandshakeProbe
from gpuloom.scheduler.settings import (
    FailedNodeReason,
    FilterWrite,
    HandshakeCleanup,
    PrivilegedGpu,
    SchedulerSettings,
    SimulationReply,
)
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import Profile, load_nvidia

Policy = Literal["binpack", "spread"]


@Parameter(name="*")
@dataclass(frozen=True)
class ServingFlags:
    """Where the process listens."""

    http_bind: Annotated[str, Parameter(name="--http_bind")] = "127.0.0.1:8080"
    """Address to listen on, host:port; port 0 for a free one."""
    cert_file: Annotated[str, Parameter(name="--cert_file")] = ""
    """Certificate for HTTPS, read again when it changes; needs --key_file too. Without both the server speaks HTTP."""
    key_file: Annotated[str, Parameter(name="--key_file")] = ""
    """Key of the certificate."""
    extender_bind: str = ""
    """Loopback address for kube-scheduler's calls; /filter and /bind then answer only there."""
    metrics_bind_address: str = ":9395"
    """Address of the metrics, empty for none."""
    legacy_metrics: bool = False
    """Whether the metrics have HAMi's old names as well."""


@Parameter(name="*")
@dataclass(frozen=True)
class ChoiceFlags:
    """Whose pods are served, and how nodes and cards are chosen."""

    scheduler_name: str = "hami-scheduler"
    """Name that pods with cards get as their scheduler."""
    device_config_file: Path | None = None
    """Device configuration (device-config.yaml); without it the values of HAMi's chart."""
    node_scheduler_policy: Policy = "binpack"
    """How nodes are chosen unless a pod says otherwise."""
    gpu_scheduler_policy: str = "spread"
    """How cards are chosen unless a pod says otherwise."""
    force_overwrite_default_scheduler: bool = True
    """Whether pods that name the default scheduler are taken over."""
    node_label_selector: str = ""
    """Only nodes with these labels are looked at, k=v,k2=v2."""


@Parameter(name="*")
@dataclass(frozen=True)
class LockFlags:
    """How long the lock of a node counts and is waited for."""

    node_lock_timeout: timedelta = timedelta(minutes=5)
    """After this long the lock of a node no longer counts, such as 5m."""
    node_lock_retry_timeout: timedelta = timedelta(seconds=28)
    """How long a bind waits for the lock of its node, such as 28s."""


@Parameter(name="*")
@dataclass(frozen=True)
class LeaderFlags:
    """Which of several replicas decides."""

    leader_elect: bool = False
    """Whether to follow the lease of the kube-scheduler beside this process."""
    leader_elect_resource_name: str = ""
    """Name of that lease."""
    leader_elect_resource_namespace: str = ""
    """Namespace of that lease."""
    readyz_follower_503: Annotated[bool, Parameter(name="--readyz-follower-503")] = False
    """Whether replicas that do not decide are unready."""
    pod_name: Annotated[str, Parameter(env_var="POD_NAME")] = ""
    """Name of the pod of this process, for the label that tells the leader."""
    pod_namespace: Annotated[str, Parameter(env_var="POD_NAMESPACE")] = ""
    """Namespace of that pod."""


@Parameter(name="*")
@dataclass(frozen=True)
class SwitchFlags:
    """Where sources of the behaviour differ."""

    device_sort: DeviceSort = "numa-first"
    """Whether cards are tried by NUMA node or by score first."""
    device_score_slots: ScoreSlots = "nums"
    """Whether a card's score counts all cards asked for or one slot."""
    filter_write: FilterWrite = "bind"
    """Whether a decision is written with the binding, or by the filter call as HAMi does."""
    trust_annotations: bool = False
    """Whether the annotations of a pod that is not bound count as usage."""
    strip_owned_keys: bool = True
    """Whether the webhook removes annotations from new pods that only gpuloom may write."""
    strict_quantities: bool = True
    """Whether the webhook denies amounts that cannot be given."""
    privileged_gpu: PrivilegedGpu = "skip"
    """Whether privileged containers are left alone, or pods with them and cards denied."""
    exclusive_cores: bool = True
    """Whether a container that asks for a whole card's memory gets all of its cores."""
    admission_quota: bool = True
    """Whether the webhook denies pods that exceed a resource quota."""
    no_request_event: bool = True
    """Whether a pod that asks for no card is told so in an event."""
    failed_node_reason: FailedNodeReason = "detail"
    """Whether replies say why a node does not fit."""
    simulation_reply: SimulationReply = "best"
    """Whether a simulation names the best node or all that fit."""
    handshake_cleanup: HandshakeCleanup = "remove"
    """What is left of the handshake of a node whose plugin is gone."""
    handshake_probe: HandshakeProbe = "registered"
    """Which nodes are asked whether their plugin lives."""
    pod_label: bool = True
    """Whether bound pods get the label hami.io/vgpu-node."""


@Parameter(name="*")
@dataclass(frozen=True)
class SchedulerFlags:
    """All flags that make settings."""

    serving: ServingFlags = ServingFlags()
    choice: ChoiceFlags = ChoiceFlags()
    lock: LockFlags = LockFlags()
    leader: LeaderFlags = LeaderFlags()
    switch: SwitchFlags = SwitchFlags()


def make_settings(flags: SchedulerFlags, environment: Mapping[str, str]) -> SchedulerSettings:
    """Make settings of flags.

    Raises CommandError, SettingsError or ProfileError that names the flag or the file.
    """
    serving, choice = flags.serving, flags.choice
    _check_files(serving)
    return SchedulerSettings(
        **vars(serving),
        **vars(flags.leader),
        **vars(flags.switch),
        scheduler_name=choice.scheduler_name,
        node_scheduler_policy=choice.node_scheduler_policy,
        gpu_scheduler_policy=choice.gpu_scheduler_policy,
        force_overwrite_default_scheduler=choice.force_overwrite_default_scheduler,
        node_label_selector=choice.node_label_selector,
        node_lock_timeout_s=flags.lock.node_lock_timeout.total_seconds(),
        node_lock_retry_timeout_s=flags.lock.node_lock_retry_timeout.total_seconds(),
        host_name=environment.get("HOSTNAME") or socket.gethostname(),
        profile=_load_profile(choice.device_config_file),
    )


def _load_profile(file: Path | None) -> Profile:
    profile = load_nvidia()
    if file is None:
        return profile
    try:
        text = file.read_bytes()
    except OSError as error:
        raise CommandError(f"--device-config-file {file}: {error.strerror}") from error
    return apply_device_config(profile, text, str(file))


def _check_files(serving: ServingFlags) -> None:
    if bool(serving.cert_file) != bool(serving.key_file):
        raise CommandError("--cert_file and --key_file belong together: give both for HTTPS, none for HTTP")
    for flag, file in (("--cert_file", serving.cert_file), ("--key_file", serving.key_file)):
        if file and not Path(file).is_file():
            raise CommandError(f"{flag} {file}: there is no such file")
