"""Which instances the scheduler promised to a container, and what its pod's annotation says afterwards. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuloom.model.mig import MigAllocation, MigRuntime
from gpuloom.model.share import Share
from gpuloom.node.errors import AllocationError
from gpuloom.node.mig.geometries import Layout, claim_positions
from gpuloom.node.replicas import card_of_share
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_allocations, encode_mig_allocations
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares, take_next

Layouts = Mapping[str, Sequence[Layout]]
"""For each card by UUID: its geometries."""

InstanceKey = tuple[int, int]
"""Position of the container in the pod, position of the card in the container."""


def key_of(allocation: MigAllocation) -> InstanceKey:
    """Return the share that an allocation is for."""
    return allocation.container_index, allocation.device_index


def read_allocations(pod: Pod) -> tuple[MigAllocation, ...]:
    """Return what a pod was promised.

    Raises WireError when its annotation cannot be read.
    """
    return decode_mig_allocations(pod.annotations.get(keys.MIG_ALLOCATIONS, ""))


def read_promises(pod: Pod, layouts: Layouts | None) -> tuple[MigAllocation, ...]:
    """Return what a pod was promised, in either form: with `layouts`, in HAMi's older one.

    Raises WireError when it cannot be read.
    """
    if layouts is None:
        return read_allocations(pod)
    containers = decode_shares(pod.annotations.get(keys.DEVICES_ALLOCATED, ""))
    return tuple(claim for place, shares in enumerate(containers) for claim in claim_positions(shares, place, layouts))


def read_cards(pod: Pod) -> frozenset[str]:
    """Return the UUIDs of the cards of which a pod has shares or was promised instances.

    Raises WireError when that cannot be read.
    """
    containers = decode_shares(pod.annotations.get(keys.DEVICES_ALLOCATED, ""))
    shared = {card_of_share(share.uuid) for shares in containers for share in shares}
    return frozenset(shared.union(allocation.gpu_uuid for allocation in read_allocations(pod)))


def find_claims(
    pod: Pod, requests: Sequence[Sequence[str]], layouts: Layouts | None = None
) -> tuple[MigAllocation, ...]:
    """Return the instances of the containers that the kubelet asks for now, one for each share.

    `layouts` are those of HAMi's older way, if the node is divided so. Raises AllocationError when the promises do not
    match the shares.
    """
    text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    claims: list[MigAllocation] = []
    try:
        allocations = read_allocations(pod) if layouts is None else ()
        for _ in requests:
            position, shares, text = take_next(text)
            if layouts is None:
                claims.extend(_claim(pod, position, shares, allocations))
            else:
                claims.extend(claim_positions(shares, position, layouts))
    except WireError as error:
        raise AllocationError(f"{error} (pod {pod.full_name})") from error
    return tuple(claims)


def enter_runtimes(pod: Pod, runtimes: Mapping[InstanceKey, MigRuntime]) -> str:
    """Return the pod's annotation with the names of the instances that were made.

    Raises WireError when the annotation cannot be read.
    """
    return encode_mig_allocations(
        replace(allocation, runtime=runtimes.get(key_of(allocation), allocation.runtime))
        for allocation in read_allocations(pod)
    )


def _claim(
    pod: Pod, position: int, shares: Sequence[Share], allocations: Iterable[MigAllocation]
) -> list[MigAllocation]:
    mine = sorted((one for one in allocations if one.container_index == position), key=key_of)
    if [(one.device_index, one.gpu_uuid) for one in mine] != [(at, share.uuid) for at, share in enumerate(shares)]:
        raise AllocationError(
            f"{keys.MIG_ALLOCATIONS} of pod {pod.full_name} does not go with its device list: container number "
            f"{position + 1} was scheduled with {len(shares)} cards and promised {len(mine)} instances"
        )
    return mine
