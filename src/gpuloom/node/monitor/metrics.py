"""The metrics of the monitor, one row each (device plugin 16.3): HAMi's names and gpuloom's own.

The table in ``docs/monitor.md`` is held against these rows by a test. The names of HAMi before 2.9 are in
:mod:`gpuloom.node.monitor.legacymetrics`.
"""

import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

from gpuloom.node.monitor.cards import CardUse
from gpuloom.node.monitor.families import Labels, MetricFamily, MigUse, Samples, ScrapeData, per_key
from gpuloom.node.monitor.region import DeviceUse
from gpuloom.node.monitor.rounds import ContainerUse

_MAKER = "NVIDIA"
_CARD = ("node", "device_index", "device_uuid", "device_type")
_CONTAINER = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
_BUILD = ("version", "revision", "build_date", "go_version", "compiler", "platform")


def name_card(node_name: str, card: CardUse) -> Labels:
    """Return the label values of a card."""
    return node_name, str(card.index), card.uuid, f"{_MAKER}-{card.name}"


def name_device(use: ContainerUse, device: DeviceUse) -> Labels:
    """Return the label values of a container's card."""
    return use.namespace, use.pod, use.container, str(device.index), device.uuid


def name_mig(use: MigUse) -> Labels:
    """Return the label values of a container's card that is a MIG instance."""
    return use.namespace, use.pod, use.container, str(use.allocation.device_index), use.allocation.gpu_uuid


def per_device(read: Callable[[DeviceUse], float]) -> Callable[[ScrapeData], Samples]:
    """Make a sample of every card of every container."""

    def samples(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
        for use in snapshot.round.containers:
            for device in use.devices:
                yield name_device(use, device), float(read(device))

    return samples


def per_card(read: Callable[[CardUse], int | None], *, skip: int = 0) -> Callable[[ScrapeData], Samples]:
    """Make a sample of every card that can tell; `skip` leaves out the first labels."""

    def samples(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
        for card in snapshot.cards.cards if snapshot.cards else ():
            value = read(card)
            if value is not None:
                yield name_card(snapshot.node_name, card)[skip:], float(value)

    return samples


def list_elapsed(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
    """Tell how long ago each container ran its last kernel, where that is known."""
    for use in snapshot.round.containers:
        if use.last_kernel_s > 0:
            for device in use.devices:
                yield name_device(use, device), max(snapshot.now_s - use.last_kernel_s, 0.0)


def _list_migs(snapshot: ScrapeData) -> Iterator[tuple[Labels, float]]:
    for use in snapshot.migs:
        if runtime := use.allocation.runtime:
            instance = (str(runtime.gpu_instance_id), str(runtime.compute_instance_id))
            yield (*name_mig(use), runtime.mig_uuid, use.allocation.profile, *instance), 1.0


def _list_build(snapshot: ScrapeData) -> Samples:
    del snapshot
    implementation = (f"python{platform.python_version()}", platform.python_implementation())
    return [((version("gpuloom"), "", "", *implementation, f"{sys.platform}/{platform.machine()}"), 1.0)]


def _list_regions(snapshot: ScrapeData) -> Samples:
    found = snapshot.round
    return [
        (("read",), float(len(found.containers))),
        (("waiting",), float(found.waiting)),
        (("unreadable",), float(found.unreadable)),
        (("unsettled",), float(found.unsettled)),
        (("unknown",), float(found.unknown)),
    ]


def _count(name: str, text: str, key: str) -> MetricFamily:
    return MetricFamily(name, text, (), lambda snapshot: [((), float(snapshot.counters.get(key, 0)))], "counter")


HAMI_FAMILIES = (
    MetricFamily(
        "hami_host_gpu_memory_used_bytes",
        "Memory in use on the card, as the driver says",
        _CARD,
        per_card(lambda card: card.memory_used_bytes),
    ),
    MetricFamily(
        "hami_host_gpu_utilization_ratio",
        "How busy the card is, 0 to 100, as the driver says",
        _CARD,
        per_card(lambda card: card.gpu_percent),
    ),
    MetricFamily(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "How busy the card's memory is, 0 to 100, as the driver says",
        _CARD[1:],
        per_card(lambda card: card.memory_controller_percent, skip=1),
    ),
    MetricFamily(
        "hami_vgpu_memory_used_bytes",
        "Memory that the container uses of the card",
        _CONTAINER,
        per_device(lambda device: device.total_bytes),
    ),
    MetricFamily(
        "hami_vgpu_memory_limit_bytes",
        "Memory that the container may use of the card",
        _CONTAINER,
        per_device(lambda device: device.limit_bytes),
    ),
    MetricFamily(
        "hami_container_device_memory_bytes",
        "The same as hami_vgpu_memory_used_bytes",
        _CONTAINER,
        per_device(lambda device: device.total_bytes),
    ),
    MetricFamily(
        "hami_container_device_utilization_ratio",
        "How busy the container keeps the card, in per cent, summed over its processes",
        _CONTAINER,
        per_device(lambda device: device.utilization_percent),
    ),
    MetricFamily(
        "hami_container_last_kernel_elapsed_seconds",
        "Time since the container's last kernel; absent before the first",
        _CONTAINER,
        list_elapsed,
    ),
    MetricFamily(
        "hami_vgpu_memory_context_bytes",
        "Memory of CUDA contexts",
        _CONTAINER,
        per_device(lambda device: device.context_bytes),
    ),
    MetricFamily(
        "hami_vgpu_memory_module_bytes",
        "Memory of CUDA modules",
        _CONTAINER,
        per_device(lambda device: device.module_bytes),
    ),
    MetricFamily(
        "hami_vgpu_memory_buffer_bytes",
        "Memory of the container's data",
        _CONTAINER,
        per_device(lambda device: device.data_bytes),
    ),
    MetricFamily(
        "hami_mig_device_info",
        "1 for each MIG instance that a container was given",
        (*_CONTAINER, "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id"),
        _list_migs,
    ),
    MetricFamily("hami_build_info", "What runs", _BUILD, _list_build),
)
"""HAMi's names since 2.9."""

OWN_FAMILIES = (
    MetricFamily("gpuloom_monitor_regions", "Containers by what their region is like", ("state",), _list_regions),
    MetricFamily(
        "gpuloom_monitor_round_seconds",
        "How long the last round took",
        (),
        lambda snapshot: [((), snapshot.round_duration_s)],
    ),
    MetricFamily(
        "gpuloom_monitor_source_up",
        "1 while this source tells something",
        ("source",),
        per_key(lambda snapshot: snapshot.sources),
    ),
    _count("gpuloom_monitor_directories_removed", "Directories of gone pods that were deleted", "directories_removed"),
    _count("gpuloom_monitor_failures", "Regions not written and directories not deleted", "failures"),
    _count("gpuloom_monitor_events_dropped", "Events that were not tried or not taken", "events_dropped"),
    MetricFamily(
        "gpuloom_audit_findings",
        "What the audit finds wrong now",
        ("finding",),
        per_key(lambda snapshot: snapshot.findings),
    ),
    MetricFamily(
        "gpuloom_audit_processes",
        "Processes on cards by whose they are",
        ("owner",),
        per_key(lambda snapshot: snapshot.processes),
    ),
)
"""gpuloom's own."""
