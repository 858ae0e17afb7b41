"""``device-config.yaml``, the file that scheduler and device plugin share: section ``nvidia`` (wire protocol 7.1).

A key that is absent or has no value is zero or empty here; it never has the chart's value.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import Int32, Natural32
from gpuloom.wire.yamldepth import refuse_deep

_MOST_BITS = 64
_PROFILE = re.compile(r"\d+g\..+", re.ASCII)
_Natural64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
YAML_FAILURES = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)
"""What PyYAML raises besides its own errors.

``!!int x`` is a ValueError, ``!!bool x`` a KeyError, ``!!timestamp x`` an AttributeError, a list that holds itself a
RecursionError.
"""


class MigEntry(msgspec.Struct, frozen=True):
    """``count`` instances of one kind; ``cores`` per cent of the card, 0 in files of HAMi up to 2.7."""

    name: str = ""
    cores: Int32 = msgspec.field(default=0, name="core")
    memory_mib: Int32 = msgspec.field(default=0, name="memory")
    count: Natural32 = 0


class MigGeometries(msgspec.Struct, frozen=True, rename="camel"):
    """The ways to divide cards whose model contains one of ``models``; positions are part of the wire."""

    models: tuple[str, ...] = ()
    allowed_geometries: tuple[tuple[MigEntry, ...], ...] = ()


class MigAllowlist(msgspec.Struct, frozen=True):
    """The MIG profiles that cards publish whose model contains one of ``models``."""

    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


class NvidiaConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Section ``nvidia``: resource names, then what completes a request, then what the device plugin does."""

    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_memory_percentage_name: str = ""
    resource_core_name: str = ""
    resource_priority_name: str = ""
    overwrite_env: bool = False
    default_memory_mib: Int32 = msgspec.field(default=0, name="defaultMemory")
    default_cores: Int32 = 0
    default_cards: Int32 = msgspec.field(default=0, name="defaultGPUNum")
    memory_factor: Int32 = 0
    gpu_core_policy: str = ""
    runtime_class_name: str = ""
    disable_core_limit: bool = False
    device_split_count: Natural32 = 0
    device_memory_scaling: float = 0.0
    device_core_scaling: float = 0.0
    pre_configured_device_memory_mib: _Natural64 = msgspec.field(default=0, name="preConfiguredDeviceMemory")
    lib_cuda_log_level: str = ""
    enable_numa_topology: bool = False
    known_mig_geometries: tuple[MigGeometries, ...] = ()
    mig_profile_allowlist: tuple[MigAllowlist, ...] = ()


def decode_sections(source: bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Read the sections of a device configuration, given as YAML text or as parsed already; values of null are absent.

    Raises WireError when it cannot be read, configures nothing, or has a section ``nvidia`` that cannot be used.
    """
    try:
        if isinstance(source, bytes):
            refuse_deep(source)
        sections = msgspec.yaml.decode(source) if isinstance(source, bytes) else source
        sections = _drop_nulls(sections)
    except YAML_FAILURES as error:
        raise WireError(str(error)) from error
    if _is_empty(sections):
        raise WireError("all configurations are empty")
    if not isinstance(sections, dict):
        raise WireError("device configuration is not a map of vendor sections")
    _decode_nvidia(sections)
    return sections


def decode_device_config(source: bytes | Mapping[str, Any]) -> NvidiaConfig:
    """Read section ``nvidia`` of a device configuration, given as YAML text or as parsed already.

    A file that configures only other vendors gives an empty section.
    Raises WireError when it cannot be read, configures nothing, or holds a MIG allowlist that cannot be used.
    """
    return _decode_nvidia(decode_sections(source))


def _decode_nvidia(sections: Mapping[str, Any]) -> NvidiaConfig:
    try:
        config = msgspec.convert(_select_nvidia(sections), NvidiaConfig)
    except YAML_FAILURES as error:
        raise WireError(str(error)) from error
    _check_scaling("deviceMemoryScaling", config.device_memory_scaling)
    _check_scaling("deviceCoreScaling", config.device_core_scaling)
    for allowlist in config.mig_profile_allowlist:
        _check_allowlist(allowlist)
    return config


def encode_device_config(config: NvidiaConfig) -> bytes:
    """Write a device configuration with this section ``nvidia`` as YAML."""
    return msgspec.yaml.encode({"nvidia": config})


def _select_nvidia(sections: Mapping[str, Any]) -> dict[str, Any]:
    section = sections.get("nvidia", {})
    if not isinstance(section, dict):
        raise WireError("section nvidia is not a map")
    level = section.get("libCudaLogLevel")
    # Go's YAML reads a bare number into a string field; HAMi's own default is written so.
    return {**section, "libCudaLogLevel": str(level)} if type(level) is int else section


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(part) for part in value.values())
    return not value


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _drop_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_drop_nulls(part) for part in value]  # positions of geometries are part of the wire
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"a number has more than {_MOST_BITS} bits")
    return value


def _check_scaling(key: str, value: float) -> None:
    if not math.isfinite(value) or value < 0:
        raise WireError(f"{key} must be a positive number, not {value}")


def _check_allowlist(allowlist: MigAllowlist) -> None:
    if not allowlist.models or not allowlist.profiles:
        raise WireError("MIG profile allowlist must define models and profiles")
    for profile in allowlist.profiles:
        if not _PROFILE.fullmatch(profile):
            raise WireError(f'invalid MIG profile "{profile}"')
