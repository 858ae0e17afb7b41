"""The metrics under the names of HAMi before 2.9, for dashboards that still ask for them (device plugin 16.3)."""

from collections.abc import Iterator

from gpuloom.node.monitor.families import Labels, MetricFamily, ScrapeData
from gpuloom.node.monitor.metrics import list_elapsed, name_device, name_mig, per_card, per_device

_CARD = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
_CONTAINER = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")


def _list_memory(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
    """Byte counts as labels, as in HAMi. Each count is a new series, so containers that change often are left out."""
    for use in snapshot.round.containers:
        for device in use.devices if use.is_steady else ():
            counts = (device.context_bytes, device.module_bytes, device.data_bytes, device.offset_bytes)
            yield (*name_device(use, device), *map(str, counts)), float(device.total_bytes)


def _list_migs(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
    for use in snapshot.migs:
        if runtime := use.allocation.runtime:
            yield (*name_mig(use), str(runtime.gpu_instance_id)), 1.0


LEGACY_FAMILIES = (
    MetricFamily(
        "HostGPUMemoryUsage",
        "See hami_host_gpu_memory_used_bytes",
        _CARD,
        per_card(lambda card: card.memory_used_bytes),
    ),
    MetricFamily(
        "HostCoreUtilization",
        "See hami_host_gpu_utilization_ratio",
        _CARD,
        per_card(lambda card: card.gpu_percent),
    ),
    MetricFamily(
        "vGPU_device_memory_usage_in_bytes",
        "See hami_vgpu_memory_used_bytes",
        _CONTAINER,
        per_device(lambda device: device.total_bytes),
    ),
    MetricFamily(
        "vGPU_device_memory_limit_in_bytes",
        "See hami_vgpu_memory_limit_bytes",
        _CONTAINER,
        per_device(lambda device: device.limit_bytes),
    ),
    MetricFamily(
        "Device_memory_desc_of_container",
        "Memory in use, with its parts in bytes as labels",
        (*_CONTAINER, "context", "module", "data", "offset"),
        _list_memory,
    ),
    MetricFamily(
        "Device_utilization_desc_of_container",
        "See hami_container_device_utilization_ratio",
        _CONTAINER,
        per_device(lambda device: device.utilization_percent),
    ),
    MetricFamily(
        "Device_last_kernel_of_container",
        "See hami_container_last_kernel_elapsed_seconds",
        _CONTAINER,
        list_elapsed,
    ),
    MetricFamily("MigInfo", "See hami_mig_device_info", (*_CONTAINER, "instanceid"), _list_migs),
)
"""HAMi's names before 2.9."""
