"""``config.json`` of the device plugin: what single nodes do differently (wire protocol 7.2)."""

import math

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_fields, encode_json
from gpuloom.wire.words import Natural32


class FilterDevices(msgspec.Struct, frozen=True):
    """Cards that are not registered, by UUID or by NVML index."""

    uuids: tuple[str, ...] = msgspec.field(default=(), name="uuid")
    indexes: tuple[Natural32, ...] = msgspec.field(default=(), name="index")


class _PlainConfig(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    operating_mode: str = msgspec.field(default="", name="operatingmode")
    device_memory_scaling: float = msgspec.field(default=0.0, name="devicememoryscaling")
    device_split_count: Natural32 = msgspec.field(default=0, name="devicesplitcount")
    device_core_scaling: float = msgspec.field(default=0.0, name="devicecorescaling")
    mig_strategy: str = msgspec.field(default="", name="migstrategy")
    pre_configured_device_memory_mib: Natural32 = msgspec.field(default=0, name="preconfigureddevicememory")
    lib_cuda_log_level: str = msgspec.field(default="", name="libcudaloglevel")
    enable_numa_topology: bool = msgspec.field(default=False, name="enablenumatopology")
    enable_preferred_allocation: bool = msgspec.field(default=False, name="enablegetpreferredallocation")


class NodeConfig(_PlainConfig, frozen=True, kw_only=True):
    """One node's settings. Zero, false and empty mean: as in the device configuration."""

    filter_devices: FilterDevices = msgspec.field(default=FilterDevices(), name="filterdevices")


class _Filters(msgspec.Struct, frozen=True):
    filterdevices: msgspec.Raw = msgspec.Raw(b"{}")


class _Entries(msgspec.Struct, frozen=True):
    nodeconfig: list[msgspec.Raw] = []


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


def decode_node_config(text: bytes, node: str) -> NodeConfig | None:
    """Return the entry of one node, None when there is none; the last of several counts, as in HAMi.

    A broken entry of another node does no harm. Raises WireError when the file or the node's entry cannot be read.
    """
    mine = [entry for entry in decode_fields(text, _Entries).nodeconfig if _is_named(entry, node)]
    if not mine:
        return None
    try:
        config = _decode_entry(mine[-1])
    except WireError as error:
        raise WireError(f"entry of node {node}: {error}") from error
    for scaling in (config.device_memory_scaling, config.device_core_scaling):
        if not math.isfinite(scaling) or scaling < 0:
            raise WireError(f"entry of node {node}: a scaling must be a positive number, not {scaling}")
    return config


def encode_node_config(*configs: NodeConfig) -> str:
    """Write the file for some nodes.

    Raises WireError for text that is not Unicode.
    """
    return encode_json({"nodeconfig": configs})


def _decode_entry(entry: msgspec.Raw) -> NodeConfig:
    """Read an entry; keys inside ``filterdevices`` are as free as those beside it."""
    plain = decode_fields(entry, _PlainConfig)
    filters = decode_fields(decode_fields(entry, _Filters).filterdevices, FilterDevices)
    return NodeConfig(**msgspec.structs.asdict(plain), filter_devices=filters)


def _is_named(entry: msgspec.Raw, node: str) -> bool:
    try:
        return decode_fields(entry, _Name).name == node
    except WireError:
        return False
