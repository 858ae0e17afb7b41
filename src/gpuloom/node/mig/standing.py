"""Instances that an administrator made, offered as they are (device plugin 4 and 12.1). Pure.

With strategy ``single`` they are the node's cards, all of one profile; with ``mixed`` each profile is a resource of its
own, which no scheduler of ours knows: the kubelet chooses alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuloom.model.card import Card
from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu, MigDevice
from gpuloom.node.replicas import INSTANCE_RESOURCE, SLICE_MARK, physical_id
from gpuloom.node.settings import NodeSettings


def choose_profile(gpus: Iterable[Gpu], settings: NodeSettings) -> str:
    """Return the profile that strategy ``single`` offers: that of the first instance, empty without one."""
    return next((device.profile for gpu in gpus for device in _list_offered(gpu, settings)), "")


def build_resources(gpus: Sequence[Gpu], settings: NodeSettings) -> Mapping[str, tuple[Card, ...]]:
    """Return the instances as cards, by their resource; empty if they are not offered."""
    if settings.mig_strategy == "none":
        return {}
    names = _name_resources(gpus, settings)
    return {
        resource: tuple(
            _build_card(gpu, device, settings, resource)
            for gpu in gpus
            for device in _list_offered(gpu, settings)
            if device.profile == profile
        )
        for profile, resource in names.items()
    }


def explain_omissions(gpus: Sequence[Gpu], settings: NodeSettings) -> Iterator[tuple[str, str]]:
    """Yield the cards and instances that are left out because of how cards are divided, and why."""
    divided = [gpu for gpu in gpus if gpu.can_be_divided]
    profile = choose_profile(gpus, settings)
    for gpu in divided:
        if settings.mig_strategy == "none":
            yield (
                gpu.uuid,
                (
                    "MIG is switched on: switch it off (nvidia-smi -mig 0), set operatingmode mig for this node, or "
                    "migstrategy for instances that an administrator made"
                ),
            )
        elif not gpu.devices:
            yield gpu.uuid, "MIG is switched on and there is no instance: make some (nvidia-smi mig -cgi ... -C)"
    if settings.mig_strategy != "single" or not divided:
        return
    for gpu in gpus:
        if not gpu.can_be_divided:
            yield gpu.uuid, "it is not divided and others are: divide all alike, or set migstrategy mixed"
        for device in _list_offered(gpu, settings):
            if device.profile != profile:
                yield (
                    device.uuid,
                    (
                        f"it is a {device.profile} and the first instance is a {profile}: divide all alike, or set "
                        "migstrategy mixed"
                    ),
                )


def check_ids(ids: Sequence[str], resource: str, known: Iterable[str], settings: NodeSettings) -> None:
    """Accept the device ids that a kubelet chose from a resource of instances; `known` are the ones offered.

    Raises AllocationError.
    """
    offered = {*known}
    for each in ids:
        if physical_id(each) not in offered:
            raise AllocationError(f"invalid allocation request for '{resource}': unknown device: {each}")
    check_number(ids, resource, settings)


def check_number(ids: Sequence[str], resource: str, settings: NodeSettings) -> None:
    """Refuse several slices for one container if the settings say so, since they may be of one card.

    Raises AllocationError.
    """
    if settings.time_slicing.refuses_many and len(ids) > 1 and any(SLICE_MARK in each for each in ids):
        raise AllocationError(
            f"request for '{resource}: {len(ids)}' too large: maximum request size for shared resources is 1"
        )


def _list_offered(gpu: Gpu, settings: NodeSettings) -> Iterator[MigDevice]:
    """Return the instances on a card that are not filtered."""
    return (device for device in gpu.devices if device.uuid not in settings.filter_uuids)


def _name_resources(gpus: Sequence[Gpu], settings: NodeSettings) -> Mapping[str, str]:
    """Return the resource of each profile that is offered, in the order of their names."""
    if settings.mig_strategy == "single":
        return (
            {choose_profile(gpus, settings): settings.resource_name} if any(gpu.can_be_divided for gpu in gpus) else {}
        )
    profiles = sorted({device.profile for gpu in gpus for device in _list_offered(gpu, settings)})
    return {profile: INSTANCE_RESOURCE + profile.replace("+", ".") for profile in profiles}


def _build_card(gpu: Gpu, device: MigDevice, settings: NodeSettings, resource: str) -> Card:
    return Card(
        id=device.uuid,
        index=gpu.index,
        count=settings.time_slicing.slices.get(resource, 1),
        memory_mib=device.memory_mib,
        cores=100,
        model=settings.name_model(f"{gpu.name} MIG {device.profile}"),
        numa=max(gpu.numa, 0),
        mode=settings.mode,
        healthy=gpu.healthy and device.healthy,
    )
