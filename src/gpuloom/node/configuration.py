"""From flags and configuration files to the settings of one node (device plugin 5).

A node's own entry wins over the device configuration, that over flags, and those over the chart's values. Nothing here
runs anything.
"""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import structlog

from gpuloom.node.errors import ConfigurationError
from gpuloom.node.settings import MigStrategy, NodeSettings, OperatingMode, TimeSlicing
from gpuloom.node.sharing import MOST_SHARES, TOO_MANY_SHARES, read_time_slicing
from gpuloom.wire.device_config import NvidiaConfig, decode_device_config
from gpuloom.wire.errors import WireError
from gpuloom.wire.node_config import NodeConfig, decode_node_config

MODES: tuple[OperatingMode, ...] = get_args(OperatingMode)
STRATEGIES: tuple[MigStrategy, ...] = get_args(MigStrategy)
_LOG_LEVELS = ("0", "1", "3", "4")
_COUNT = "deviceSplitCount (--device-split-count)"
_SCALINGS = (
    ("device_memory_scaling", "deviceMemoryScaling", "--device-memory-scaling"),
    ("device_core_scaling", "deviceCoreScaling", "--device-cores-scaling"),
)
_CHART = {one.name: one.default for one in fields(NodeSettings)}
_log = structlog.get_logger(__name__)

_DEVICE_CONFIG_KEYS = {
    "resource_name": ("resourceCountName", "resource_count_name"),
    "device_split_count": ("deviceSplitCount", "device_split_count"),
    "device_memory_scaling": ("deviceMemoryScaling", "device_memory_scaling"),
    "device_core_scaling": ("deviceCoreScaling", "device_core_scaling"),
    "preconfigured_memory_mib": ("preConfiguredDeviceMemory", "pre_configured_device_memory_mib"),
    "lib_cuda_log_level": ("libCudaLogLevel", "lib_cuda_log_level"),
    "disable_core_limit": ("disableCoreLimit", "disable_core_limit"),
    "enable_numa_topology": ("enableNumaTopology", "enable_numa_topology"),
}
_EXPECTED = ("resource_name", "device_split_count", "device_memory_scaling", "device_core_scaling")
"""What HAMi's plugin reads only from the file, so that a file without it gets a warning."""

_NODE_CONFIG_KEYS = {
    "device_split_count": "device_split_count",
    "device_memory_scaling": "device_memory_scaling",
    "device_core_scaling": "device_core_scaling",
    "preconfigured_memory_mib": "pre_configured_device_memory_mib",
    "lib_cuda_log_level": "lib_cuda_log_level",
    "enable_numa_topology": "enable_numa_topology",
    "enable_preferred_allocation": "enable_preferred_allocation",
}


def configure(flags: NodeSettings, device_config: Path | None, node_config: Path | None) -> NodeSettings:
    """Return the settings of the flags, completed by the two files.

    If a device configuration is named, it must be readable; a missing or broken node configuration is only logged.
    Raises ConfigurationError.
    """
    settings = flags
    if device_config is not None:
        config, time_slicing = _read_device_config(device_config)
        settings = replace(apply_device_config(settings, config), time_slicing=time_slicing)
    if node_config is not None and (entry := _read_node_config(node_config, flags.node_name)):
        settings = apply_node_config(settings, entry)
    _check(settings)
    return settings


def apply_device_config(flags: NodeSettings, config: NvidiaConfig) -> NodeSettings:
    """Return the settings with the values of the device configuration, except those that are zero or empty."""
    changes: dict[str, Any] = {}
    for name, (key, field_name) in _DEVICE_CONFIG_KEYS.items():
        flag = getattr(flags, name)
        if value := getattr(config, field_name):
            changes[name] = value
            if flag not in {value, _CHART[name]}:
                _log.warning("flag is not used, the device configuration wins", setting=key, flag=flag, used=value)
        elif name in _EXPECTED:
            _log.warning("device configuration does not say", setting=key, used=flag)
    return replace(
        flags, **changes, mig_allowlist=config.mig_profile_allowlist, mig_geometries=config.known_mig_geometries
    )


def apply_node_config(settings: NodeSettings, entry: NodeConfig) -> NodeSettings:
    """Return the settings with the values of a node's own entry, except those that are zero or empty.

    Raises ConfigurationError for a mode or a strategy that is not supported.
    """
    if entry.operating_mode and entry.operating_mode not in MODES:
        raise ConfigurationError(
            f"operatingmode {entry.operating_mode!r} of node {entry.name} is not supported, only {', '.join(MODES)}"
        )
    if entry.mig_strategy and entry.mig_strategy not in STRATEGIES:
        raise ConfigurationError(
            f"migstrategy {entry.mig_strategy!r} of node {entry.name} is not supported, only {', '.join(STRATEGIES)}"
        )
    changes: dict[str, Any] = {name: value for name, key in _NODE_CONFIG_KEYS.items() if (value := getattr(entry, key))}
    if entry.operating_mode:
        changes["mode"] = entry.operating_mode
    if entry.mig_strategy:
        changes["mig_strategy"] = entry.mig_strategy
    return replace(
        settings,
        **changes,
        filter_uuids=frozenset(entry.filter_devices.uuids),
        filter_indexes=frozenset(entry.filter_devices.indexes),
    )


def _read_device_config(path: Path) -> tuple[NvidiaConfig, TimeSlicing]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"device configuration {path}: {error.strerror}") from error
    try:
        config = decode_device_config(text)
    except WireError as error:
        raise ConfigurationError(f"device configuration {path}: {error}") from error
    return config, read_time_slicing(text, source=str(path))


def _read_node_config(path: Path, node_name: str) -> NodeConfig | None:
    try:
        entry = decode_node_config(path.read_bytes(), node_name)
    except FileNotFoundError:
        _log.debug("no node configuration", path=str(path))
        return None
    except (OSError, WireError) as error:
        _log.error("node configuration cannot be used, going on without", path=str(path), error=str(error))
        return None
    if entry is None:
        _log.info("node configuration has no entry of this name", path=str(path), node=node_name)
    return entry


def _check(settings: NodeSettings) -> None:
    if settings.mode == "mig":
        _check_mig(settings)
    if settings.mode == "mig" or settings.mig_strategy != "none":
        _check_instances(settings)
    if settings.device_split_count < 1:
        raise ConfigurationError(f"{_COUNT} is {settings.device_split_count}, but a card needs at least 1")
    if settings.device_split_count > MOST_SHARES:
        raise ConfigurationError(f"{_COUNT} is {settings.device_split_count}, more than {TOO_MANY_SHARES}")
    for name, key, flag in _SCALINGS:
        if not 0 < (value := getattr(settings, name)) < math.inf:
            raise ConfigurationError(f"{key} ({flag}) is {value}, but must be a number of more than 0")
    if settings.lib_cuda_log_level not in {*_LOG_LEVELS, ""}:
        raise ConfigurationError(
            f"libCudaLogLevel (--lib-cuda-log-level) is {settings.lib_cuda_log_level!r}, but must be one of "
            f"{', '.join(_LOG_LEVELS)}"
        )


def _check_mig(settings: NodeSettings) -> None:
    if not settings.mig_allowlist and not settings.mig_geometries:
        raise ConfigurationError(
            "operatingmode mig needs migProfileAllowlist in the device configuration: which profiles of which models "
            "(or knownMigGeometries, with schedulers of HAMi up to 2.9)"
        )
    if settings.mig_strategy != "none":
        raise ConfigurationError(
            f"operatingmode mig divides cards as pods need it, and migstrategy {settings.mig_strategy} offers what an "
            "administrator divided: choose one of them"
        )
    if settings.time_slicing.slices:
        raise ConfigurationError(
            "operatingmode mig gives each container its own instance: leave sharing.timeSlicing out"
        )


def _check_instances(settings: NodeSettings) -> None:
    injection = settings.injection
    if injection.id_strategy != "uuid" or injection.device_specs:
        raise ConfigurationError(
            "MIG instances are named by their UUID: operatingmode mig and migstrategy go neither with "
            "device-id-strategy index nor with pass-device-specs"
        )
    if settings.mig_strategy == "single" and settings.resource_name in settings.time_slicing.slices:
        raise ConfigurationError(
            f"migstrategy single and sharing.timeSlicing of {settings.resource_name} would let containers share an "
            "instance without limits: use migstrategy mixed, or leave the slicing out"
        )
