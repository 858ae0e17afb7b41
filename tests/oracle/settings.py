"""The switches and the device configuration that decisions depend on (scheduler 0.2 and 10, wire protocol 7.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gpuloom.wire.words import decode_bool


@dataclass(frozen=True, slots=True)
class GeometryEntry:
    """``count`` equal instances of one MIG geometry; ``core`` 0 means: cores as requested."""

    name: str
    core: int
    memory_mib: int
    count: int


Geometry = tuple[GeometryEntry, ...]


@dataclass(frozen=True, slots=True)
class KnownGeometries:
    """The geometries that cards of some models can be divided into, in order."""

    models: tuple[str, ...]
    geometries: tuple[Geometry, ...]


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Section ``nvidia`` of the device configuration, as far as the scheduler reads it."""

    count_name: str = "nvidia.com/gpu"
    memory_name: str = "nvidia.com/gpumem"
    percentage_name: str = "nvidia.com/gpumem-percentage"
    core_name: str = "nvidia.com/gpucores"
    priority_name: str = "nvidia.com/priority"
    overwrite_env: bool = False
    default_memory_mib: int = 0
    default_cores: int = 0
    default_gpu_num: int = 1
    memory_factor: int = 1
    gpu_core_policy: str = "default"
    runtime_class_name: str = ""
    known_geometries: tuple[KnownGeometries, ...] = ()

    @property
    def factor(self) -> int:
        """What a unit of the memory resource stands for, in MiB."""
        return max(self.memory_factor, 1)


@dataclass(frozen=True, slots=True)
class Settings:
    """Start flags with the defaults of this project."""

    scheduler_name: str = ""
    node_scheduler_policy: str = "binpack"
    gpu_scheduler_policy: str = "spread"
    node_label_selector: str = ""
    force_overwrite_default_scheduler: bool = True
    device_sort: str = "numa-first"
    privileged_gpu: str = "skip"
    device_score_slots: str = "nums"
    no_request_event: bool = True
    failed_node_reason: str = "detail"
    exclusive_cores: bool = True
    admission_quota: bool = True
    simulation_reply: str = "best"
    strict_quantities: bool = True
    filter_write: str = "bind"
    node_choice: str = "extender"
    trust_annotations: bool = False
    unreadable: str = "close"
    strip_owned_keys: bool = True
    handshake_probe: str = "registered"
    handshake_cleanup: str = "remove"
    pod_label: bool = True
    topology_score_sign: str = "fixed"
    metax_same_card: bool = True
    ascend_round_unseen: bool = True
    neuron_core_ids: bool = True
    mlu_default_cores: bool = False
    quota_in_fit: str = "all"
    timezone: str = "UTC"
    devices: DeviceConfig = DeviceConfig()

    def topology_sign(self, node_policy: str) -> int:
        """Return the sign of scores that say how good cards lie, where the lowest score wins (vendors 5)."""
        return -1 if node_policy == "spread" and self.topology_score_sign == "fixed" else 1


def read_settings(flags: Mapping[str, Any], device_config: Mapping[str, Any] | None = None) -> Settings:
    """Read the flags of a SETTINGS line (recording 2); an absent device configuration is the chart's default."""
    known = {field.name: field.type for field in fields(Settings)} | {"devices": None}
    values: dict[str, Any] = {}
    for flag, value in flags.items():
        name = flag.replace("-", "_")
        if known.get(name) is bool:
            values[name] = value if isinstance(value, bool) else decode_bool(value)
        elif known.get(name) is str:
            values[name] = value
    devices = DeviceConfig() if device_config is None else read_device_config(device_config)
    return Settings(devices=devices, **values)


def read_device_config(config: Mapping[str, Any]) -> DeviceConfig:
    """Read a device configuration; a key that is absent is zero or empty, not the chart's value."""
    nvidia = config.get("nvidia") or {}
    return DeviceConfig(
        count_name=nvidia.get("resourceCountName", ""),
        memory_name=nvidia.get("resourceMemoryName", ""),
        percentage_name=nvidia.get("resourceMemoryPercentageName", ""),
        core_name=nvidia.get("resourceCoreName", ""),
        priority_name=nvidia.get("resourcePriorityName", ""),
        overwrite_env=nvidia.get("overwriteEnv", False),
        default_memory_mib=nvidia.get("defaultMemory", 0),
        default_cores=nvidia.get("defaultCores", 0),
        default_gpu_num=nvidia.get("defaultGPUNum", 0),
        memory_factor=nvidia.get("memoryFactor", 0),
        gpu_core_policy=nvidia.get("gpuCorePolicy", ""),
        runtime_class_name=nvidia.get("runtimeClassName", ""),
        known_geometries=tuple(_read_known(group) for group in nvidia.get("knownMigGeometries") or ()),
    )


def _read_known(group: Mapping[str, Any]) -> KnownGeometries:
    geometries: Sequence[Sequence[Mapping[str, Any]]] = group["allowedGeometries"]
    return KnownGeometries(
        models=tuple(group["models"]),
        geometries=tuple(tuple(_read_entry(entry) for entry in geometry) for geometry in geometries),
    )


def _read_entry(entry: Mapping[str, Any]) -> GeometryEntry:
    return GeometryEntry(entry["name"], entry.get("core", 0), entry["memory"], entry["count"])
