"""From a pod's device lists to what it uses (scheduler 4.5)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from oracle.records import AllocatedDevice, ContainerDevices, ContainerKind, CountedPod, container_kinds


@dataclass(slots=True)
class _Entries:
    """The entries of one UUID, by the kind of their container."""

    init: list[AllocatedDevice] = field(default_factory=list)
    sidecar: list[AllocatedDevice] = field(default_factory=list)
    regular: list[AllocatedDevice] = field(default_factory=list)


def collapse(
    devices: Sequence[ContainerDevices], kinds: Sequence[ContainerKind], *, init_released: bool = False
) -> tuple[AllocatedDevice, ...]:
    """Return one device per UUID, sorted by UUID, with at least one slot each.

    Init containers run one after another, so their largest counts; sidecars (B-36) and regular containers run
    together, so their sum counts. After the init containers ended only the latter remain.
    """
    by_uuid: dict[str, _Entries] = defaultdict(_Entries)
    for kind, device in _entries(devices, kinds):
        getattr(by_uuid[device.uuid], kind.value).append(device)
    return tuple(
        _collapse_one(uuid, entries, with_init=not init_released)
        for uuid, entries in sorted(by_uuid.items())
        if entries.sidecar or entries.regular or not init_released
    )


def usage_of(pod: CountedPod) -> tuple[AllocatedDevice, ...]:
    """Return what a counted pod uses now."""
    return collapse(pod.devices, container_kinds(pod.pod), init_released=pod.init_released)


def _entries(
    devices: Sequence[ContainerDevices], kinds: Sequence[ContainerKind]
) -> Iterator[tuple[ContainerKind, AllocatedDevice]]:
    for index, container in enumerate(devices):
        kind = kinds[index] if index < len(kinds) else ContainerKind.REGULAR
        for device in container:
            yield kind, device


def _collapse_one(uuid: str, entries: _Entries, *, with_init: bool) -> AllocatedDevice:
    init = entries.init if with_init else []
    return AllocatedDevice(
        uuid=uuid,
        usedmem=_together(init, entries, lambda device: device.usedmem),
        usedcores=_together(init, entries, lambda device: device.usedcores),
        slots=max(_together(init, entries, lambda device: max(device.slots, 1)), 1),
    )


def _together(init: Sequence[AllocatedDevice], entries: _Entries, amount: Callable[[AllocatedDevice], int]) -> int:
    sidecars, regular = sum(map(amount, entries.sidecar)), sum(map(amount, entries.regular))
    return sidecars + max(max(map(amount, init), default=0), regular)
