"""The flags of ``gpuloom device-plugin`` in groups, and the settings that they make (device plugin 5.1).

Names and environment variables are HAMi's, so that its chart can start this plugin.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from cyclopts import Parameter

from gpuloom.cli.outcomes import CommandError
from gpuloom.cli.ownvendors import read_own
from gpuloom.node.errors import ConfigurationError
from gpuloom.node.health import DEFAULT_RECOVERY_S, parse_health
from gpuloom.node.registration import VENDOR
from gpuloom.node.settings import (
    DriverPart,
    IdStrategy,
    InjectionSettings,
    LimitOrder,
    ListStrategy,
    MigStrategy,
    NodeSettings,
)
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.profile import ProfileError
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.register import RegisterForm
from gpuloom.wire.serves import encode_serves

_DEFAULT = NodeSettings(node_name="")
_INJECTION = _DEFAULT.injection
_MOST_DIGITS = 9


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceFlags:
    """Where things are on this node."""

    config_file: Annotated[Path | None, Parameter(env_var="CONFIG_FILE")] = None
    """Device configuration (device-config.yaml), the file that the scheduler reads too."""
    node_config_file: Path = Path("/config/config.json")
    """Node configuration: what single nodes do differently; it need not be there."""
    vendor_dir: Path | None = None
    """Folder with profiles of your own (*.toml), as the scheduler has it: a pod that also has their cards is served
    only when their plugin is done."""
    kubelet_socket: Annotated[Path, Parameter(env_var="KUBELET_SOCKET")] = _DEFAULT.kubelet_socket
    """Where the kubelet takes registrations; the plugin's own socket lies beside it."""
    host_root: Path = _DEFAULT.host_root
    """Where this process sees the host's file system."""
    hook_path: Annotated[str, Parameter(env_var="HOOK_PATH")] = _DEFAULT.hook_path
    """Folder of the host that holds vgpu/libvgpu.so."""
    lock_dir: Path = _DEFAULT.lock_dir
    """Folder of the host for the lock files of HAMi-core."""


@Parameter(name="*")
@dataclass(frozen=True)
class CardFlags:
    """How cards are offered; the configuration files win over these."""

    resource_name: str = _DEFAULT.resource_name
    """Name of the resource that the kubelet counts."""
    device_split_count: Annotated[int, Parameter(env_var="DEVICE_SPLIT_COUNT")] = _DEFAULT.device_split_count
    """How many containers may share one card."""
    device_memory_scaling: Annotated[float, Parameter(env_var="DEVICE_MEMORY_SCALING")] = 1.0
    """Memory offered per card, as a factor of what it has."""
    device_cores_scaling: Annotated[float, Parameter(env_var="DEVICE_CORES_SCALING")] = 1.0
    """Cores offered per card, as a factor of what it has."""
    disable_core_limit: Annotated[bool, Parameter(env_var="DISABLE_CORE_LIMIT")] = False
    """Whether containers may use all cores whatever they asked for."""
    lib_cuda_log_level: str = _DEFAULT.lib_cuda_log_level
    """Log level of HAMi-core in containers: 0, 1, 3 or 4."""
    health_recovery_s: float = DEFAULT_RECOVERY_S
    """After so many seconds without a new error a sick card is tried again; 0 is never."""
    fail_on_init_error: Annotated[bool, Parameter(env_var="FAIL_ON_INIT_ERROR")] = True
    """Whether to end without an NVIDIA driver; otherwise the process waits for one."""
    mig_strategy: Annotated[MigStrategy, Parameter(env_var="MIG_STRATEGY")] = _DEFAULT.mig_strategy
    """What becomes of MIG instances that an administrator made: none is offered, all are the node's cards (single), or
    each profile is a resource of its own (mixed). For instances that are made as pods need them see operatingmode mig
    of the node configuration."""
    device_discovery_strategy: Annotated[Literal["auto", "nvml"], Parameter(env_var="DEVICE_DISCOVERY_STRATEGY")] = (
        "auto"
    )
    """How cards are found: by NVML in either case."""


@Parameter(name="*")
@dataclass(frozen=True)
class PodFlags:
    """Which pods are served, and what the node says about its cards."""

    register_format: RegisterForm = _DEFAULT.register_format
    """Form of the node's register annotation: json for HAMi 2.8 and later, csv9 and csv7 for older ones."""
    report_handshake: bool = False
    """Whether to answer the scheduler's handshake, which schedulers up to HAMi 2.7 wait for."""
    limit_order: LimitOrder = _DEFAULT.limit_order
    """Whether a container's limits are numbered as in the pod's annotation or by the cards' indexes."""
    scheduler_name: str = _DEFAULT.scheduler_name
    """Only pods of this scheduler are served."""
    any_scheduler: bool = False
    """Serve pods of any scheduler."""
    pod_uid: Annotated[str, Parameter(env_var="POD_UID")] = ""
    """UID of the pod of this process: with it the scheduler need not lock the node for every pod."""


@Parameter(name="*")
@dataclass(frozen=True)
class ContainerFlags:
    """How containers are shown their cards."""

    device_list_strategy: Annotated[str, Parameter(env_var="DEVICE_LIST_STRATEGY")] = "envvar"
    """One or more of envvar, volume-mounts, cdi-annotations, cdi-cri, with commas."""
    device_id_strategy: Annotated[IdStrategy, Parameter(env_var="DEVICE_ID_STRATEGY")] = _INJECTION.id_strategy
    """Whether cards are named by UUID or by index."""
    pass_device_specs: Annotated[bool, Parameter(env_var="PASS_DEVICE_SPECS")] = False
    """Whether device files are passed as well."""
    nvidia_driver_root: Annotated[str, Parameter(env_var="NVIDIA_DRIVER_ROOT")] = "/"
    """Folder of the host below which the driver is installed."""
    driver_root_ctr_path: Annotated[str, Parameter(env_var=["DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"])] = (
        _INJECTION.driver_root_here
    )
    """Where this process sees that folder; it need not be there."""
    dev_root: Annotated[str, Parameter(name="--dev-root", env_var="NVIDIA_DEV_ROOT")] = ""
    """Folder of the host below which its device files are; the driver's folder unless it is given."""
    gdrcopy_enabled: Annotated[bool, Parameter(env_var="GDRCOPY_ENABLED")] = False
    """Whether containers see GDRCopy."""
    gds_enabled: Annotated[bool, Parameter(env_var="GDS_ENABLED")] = False
    """Whether containers see GPUDirect Storage."""
    mofed_enabled: Annotated[bool, Parameter(env_var="MOFED_ENABLED")] = False
    """Whether containers see Mellanox OFED devices."""
    imex_channel_ids: Annotated[str, Parameter(env_var="IMEX_CHANNEL_IDS")] = ""
    """IMEX channels that containers see, numbers with commas."""
    cdi_annotation_prefix: Annotated[str, Parameter(env_var="CDI_ANNOTATION_PREFIX")] = _INJECTION.cdi_annotation_prefix
    """Start of the annotation that names CDI devices."""
    nvidia_cdi_hook_path: Annotated[str, Parameter(env_var=["NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"])] = (
        _INJECTION.cdi_hook_path
    )
    """Where the host has the program that CDI specifications run in containers."""
    node_wide_locks: bool = _DEFAULT.node_wide_locks
    """Whether all containers of the node lock in one folder, as HAMi-core before HAMi 2.8.1 wants it."""
    limit_whole_cards: bool = _DEFAULT.limit_whole_cards
    """Whether HAMi-core is also loaded in containers that have all memory of their cards; pods may say otherwise."""


@Parameter(name="*")
@dataclass(frozen=True)
class DevicePluginFlags:
    """All flags that make settings."""

    place: PlaceFlags = PlaceFlags()
    card: CardFlags = CardFlags()
    pod: PodFlags = PodFlags()
    container: ContainerFlags = ContainerFlags()


def make_settings(node_name: str, flags: DevicePluginFlags, environment: Mapping[str, str]) -> NodeSettings:
    """Make settings of flags and of the variables that have no flag.

    Raises ConfigurationError that names the flag.
    """
    place, card, pod = flags.place, flags.card, flags.pod
    if place.kubelet_socket.name != _DEFAULT.kubelet_socket.name:
        raise ConfigurationError(f"--kubelet-socket {place.kubelet_socket}: the file must be called kubelet.sock")
    return replace(
        _DEFAULT,
        node_name=node_name,
        plugins_dir=place.kubelet_socket.parent,
        host_root=place.host_root,
        hook_path=place.hook_path,
        lock_dir=place.lock_dir,
        resource_name=card.resource_name,
        device_split_count=card.device_split_count,
        device_memory_scaling=card.device_memory_scaling,
        device_core_scaling=card.device_cores_scaling,
        disable_core_limit=card.disable_core_limit,
        lib_cuda_log_level=card.lib_cuda_log_level,
        fail_on_init_error=card.fail_on_init_error,
        mig_strategy=card.mig_strategy,
        register_format=pod.register_format,
        report_handshake=pod.report_handshake,
        report_topology=environment.get("ENABLE_TOPOLOGY_SCORE") == "true",
        limit_order=pod.limit_order,
        scheduler_name=pod.scheduler_name,
        any_scheduler=pod.any_scheduler,
        own_lists=_read_own_lists(place.vendor_dir),
        pod_uid=_check_uid(pod.pod_uid),
        node_wide_locks=flags.container.node_wide_locks,
        limit_whole_cards=flags.container.limit_whole_cards,
        injection=_make_injection(flags.container),
        health=parse_health(
            environment.get("DP_DISABLE_HEALTHCHECKS", ""),
            environment.get("DP_ENABLE_HEALTHCHECKS", ""),
            recovery_s=_check_recovery(card.health_recovery_s),
        ),
    )


def _read_own_lists(folder: Path | None) -> frozenset[str]:
    try:
        own = read_own(folder)
    except (CommandError, ProfileError) as error:
        raise ConfigurationError(str(error)) from error
    return Catalog(tuple(profile for file in own for profile in file.profiles)).lists_under(NODE_LOCK)


def _check_recovery(seconds: float) -> float:
    # No comparison holds for what is no number.
    if not 0 <= seconds < math.inf:
        raise ConfigurationError(f"--health-recovery-s {seconds:g}: must be a number of seconds, 0 for never")
    return seconds


def _check_uid(uid: str) -> str:
    try:
        if uid:
            encode_serves({VENDOR}, uid)
    except WireError as error:
        raise ConfigurationError(f"--pod-uid: {uid[:80]!r} is no UID of a pod, give metadata.uid") from error
    return uid


def _make_injection(flags: ContainerFlags) -> InjectionSettings:
    enabled: dict[DriverPart, bool] = {
        "gdrcopy": flags.gdrcopy_enabled,
        "gds": flags.gds_enabled,
        "mofed": flags.mofed_enabled,
    }
    return InjectionSettings(
        list_strategies=_parse_strategies(flags.device_list_strategy),
        id_strategy=flags.device_id_strategy,
        device_specs=flags.pass_device_specs,
        driver_root=flags.nvidia_driver_root,
        driver_root_here=flags.driver_root_ctr_path,
        dev_root=flags.dev_root or flags.nvidia_driver_root,
        driver_parts=tuple(part for part, is_enabled in enabled.items() if is_enabled),
        imex_channels=_parse_channels(flags.imex_channel_ids),
        cdi_annotation_prefix=flags.cdi_annotation_prefix,
        cdi_hook_path=flags.nvidia_cdi_hook_path,
    )


def _parse_strategies(text: str) -> tuple[ListStrategy, ...]:
    known: tuple[ListStrategy, ...] = get_args(ListStrategy)
    names = [item.strip() for item in text.split(",") if item.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigurationError(
            f"--device-list-strategy {text!r}: must be one or more of {', '.join(known)}, with commas"
        )
    return tuple(strategy for strategy in known if strategy in names)


def _parse_channels(text: str) -> tuple[int, ...]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not all(item.isdecimal() and len(item) <= _MOST_DIGITS for item in items):
        raise ConfigurationError(f"--imex-channel-ids {text!r}: must be numbers with commas")
    return tuple(map(int, items))
