"""From flags and configuration files to the settings of one node (device plugin 5).

A node's own entry wins over the device configuration, that over flags, and those over the chart's values. Nothing here
runs anything.
"""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import structlog

from gpuloom.node.errors import ConfigurationError
from gpuloom.node.settings import NodeSettings, OperatingMode
from gpuloom.wire.device_config import NvidiaConfig, decode_device_config
from gpuloom.wire.errors import WireError
from gpuloom.wire.node_config import NodeConfig, decode_node_config

MODES: tuple[OperatingMode, ...] = get_args(OperatingMode)
_LOG_LEVELS = ("0", "1", "3", "4")
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
"""What HAMi's plugin takes from the file alone, so that a file without it deserves a warning."""

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
    """Complete the settings that the flags gave with those of the two files.

    The device configuration must be readable if it is named; a node configuration that is missing or broken is logged
    only. Raises ConfigurationError.
    """
    settings = flags
    if device_config is not None:
        settings = apply_device_config(settings, _read_device_config(device_config))
    if node_config is not None and (entry := _read_node_config(node_config, flags.node_name)):
        settings = apply_node_config(settings, entry)
    _check(settings)
    return settings


def apply_device_config(flags: NodeSettings, config: NvidiaConfig) -> NodeSettings:
    """Let the values of the device configuration win over flags; what is zero or empty there does not count."""
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
    """Let a node's own entry win; what is zero or empty there does not count.

    Raises ConfigurationError for a mode or a strategy that is not supported.
    """
    if entry.operating_mode and entry.operating_mode not in MODES:
        raise ConfigurationError(
            f"operatingmode {entry.operating_mode!r} of node {entry.name} is not supported, only {', '.join(MODES)}"
        )
    if entry.mig_strategy not in {"", "none"}:
        raise ConfigurationError(
            f"migstrategy {entry.mig_strategy!r} of node {entry.name} is not supported: instances that "
            "the administrator made are not offered; operatingmode mig makes them as pods need them"
        )
    changes: dict[str, Any] = {name: value for name, key in _NODE_CONFIG_KEYS.items() if (value := getattr(entry, key))}
    if entry.operating_mode:
        changes["mode"] = entry.operating_mode
    return replace(
        settings,
        **changes,
        filter_uuids=frozenset(entry.filter_devices.uuids),
        filter_indexes=frozenset(entry.filter_devices.indexes),
    )


def _read_device_config(path: Path) -> NvidiaConfig:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"device configuration {path}: {error.strerror}") from error
    try:
        config = decode_device_config(text)
    except WireError as error:
        raise ConfigurationError(f"device configuration {path}: {error}") from error
    _check_sharing(path, text)
    return config


def _check_sharing(path: Path, text: bytes) -> None:
    """Refuse ways of sharing that NVIDIA's own plugin knows and this one does not."""
    sharing = msgspec.yaml.decode(text, type=dict[str, Any]).get("sharing") or {}
    for way in ("mps", "timeSlicing"):
        if isinstance(sharing, dict) and sharing.get(way):
            raise ConfigurationError(
                f"device configuration {path}: sharing.{way} is not supported, cards are shared by deviceSplitCount"
            )


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
    if settings.device_split_count < 1:
        raise ConfigurationError(f"deviceSplitCount is {settings.device_split_count}, but a card needs at least 1")
    for key in ("device_memory_scaling", "device_core_scaling"):
        if getattr(settings, key) <= 0:
            raise ConfigurationError(f"{key} is {getattr(settings, key)}, but must be more than 0")
    if settings.lib_cuda_log_level not in {*_LOG_LEVELS, ""}:
        raise ConfigurationError(
            f"libCudaLogLevel is {settings.lib_cuda_log_level!r}, but must be one of {', '.join(_LOG_LEVELS)}"
        )


def _check_mig(settings: NodeSettings) -> None:
    if not settings.mig_allowlist and not settings.mig_geometries:
        raise ConfigurationError(
            "operatingmode mig needs migProfileAllowlist in the device configuration: which profiles of which models "
            "(or knownMigGeometries, with schedulers of HAMi up to 2.9)"
        )
    injection = settings.injection
    if injection.id_strategy != "uuid" or injection.device_specs:
        raise ConfigurationError(
            "operatingmode mig names instances by their UUID: it goes neither with device-id-strategy index nor with "
            "pass-device-specs"
        )
