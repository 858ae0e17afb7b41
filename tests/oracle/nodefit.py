"""One node: whether all containers of a pod fit on it together, and with which cards (scheduler 4.4, 6.1, 6.12)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oracle import geometries, profiles
from oracle.device import DeviceUsage, NodeUsage, copy_usage, find_device
from oracle.fit import Collected, Question, UnfitError, fit, is_mig_request
from oracle.order import sort_devices
from oracle.records import (
    MIG_MODE,
    AllocatedDevice,
    ContainerKind,
    MigAllocation,
    Placement,
    Request,
)
from oracle.scores import Weights, device_score, node_score


@dataclass(slots=True)
class NodeFit:
    """A pod placed on a node: score before allocation, device lists (init containers first), divided cards' parts."""

    score: float
    devices: list[list[AllocatedDevice]]
    mig_allocations: list[MigAllocation] = field(default_factory=list)


def fit_node(base: NodeUsage, requests: Sequence[Request | None], question: Question, weights: Weights) -> NodeFit:
    """Place every container of the pod (4.4).

    Sidecars run beside everything else (B-36), so they come first and stay; ordinary init containers run one after
    another, each on a copy of the node with the sidecars; regular containers come last (docs/decisions/002).
    A card that an init container has divided is divided for the others as well (6.8).
    Raises UnfitError with the reason of the first container that does not fit.
    """
    result = NodeFit(score=node_score(base), devices=[[] for _ in requests])
    common = copy_usage(base)
    order = (ContainerKind.SIDECAR, ContainerKind.INIT, ContainerKind.REGULAR)
    for position in sorted(range(len(requests)), key=lambda at: order.index(question.kinds[at])):
        request = requests[position]
        if request is None:
            continue
        here = replace(question, position=position, earlier=result.devices)
        usage = copy_usage(common) if here.kinds[position] is ContainerKind.INIT else common
        result.devices[position] = fit_container(usage, request, here, weights, result.mig_allocations)
        if usage is not common:
            geometries.keep_chosen(common, usage, question.settings)
    result.mig_allocations.sort(key=lambda allocation: (allocation.container_index, allocation.device_index))
    return result


def fit_container(
    node: NodeUsage, request: Request, question: Question, weights: Weights, mig_allocations: list[MigAllocation]
) -> list[AllocatedDevice]:
    """Choose and account the cards of one container (6.1).

    Raises UnfitError.
    """
    for device in node:
        device.score = device_score(device, [request], weights, question.settings)
    candidates = sort_devices(node, question.policy, question.settings, numa_bind=question.numa_bind)
    if request.nums > len(candidates) and not is_mig_request(candidates, question.pod):
        raise UnfitError("NodeInsufficientDevice")
    return [
        _account(node, collected, question, deviceindex, mig_allocations)
        for deviceindex, collected in enumerate(fit(candidates, request, question))
    ]


def _account(
    node: NodeUsage, collected: Collected, question: Question, index: int, mig_allocations: list[MigAllocation]
) -> AllocatedDevice:
    """Charge one card, after a divided card has said which instance it gives (6.12)."""
    share = collected.share
    device = find_device(node, share.uuid)
    if device is None:
        raise UnfitError(f'Device with UUID "{share.uuid}" not found on node {question.node.node.name} after Fit')
    try:
        if device.card.mode == MIG_MODE:
            share = _take_instance(device, share, question, index, mig_allocations)
    except geometries.AllocationError as error:
        raise UnfitError(f"AddResourceUsage failed for device {share.uuid}: {error}") from error
    device.charge(share)
    return share


def _take_instance(
    device: DeviceUsage, share: AllocatedDevice, question: Question, index: int, mig_allocations: list[MigAllocation]
) -> AllocatedDevice:
    if geometries.uses_geometries(device.card):
        return geometries.allocate(device, share, question.settings)
    share, profile, placement = profiles.allocate(device, share)
    mig_allocations.append(
        MigAllocation(question.position, index, share.uuid, profile.name, Placement(placement.start, placement.size))
    )
    return share
