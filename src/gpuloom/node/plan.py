"""What an Allocate call means for a pod: who gets which shares, and what is left (device plugin 10.2). Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from gpuloom.model.mig import MigRuntime
from gpuloom.model.share import ContainerShares, in_places
from gpuloom.node.errors import AllocationError
from gpuloom.node.mig.claims import InstanceKey
from gpuloom.node.mig.standing import check_ids, check_number
from gpuloom.node.nvml import Gpu
from gpuloom.node.replicas import is_instance, physical_id
from gpuloom.node.response import HostFacts, Injection, build_limiter, name_cache_dir
from gpuloom.node.settings import NodeSettings
from gpuloom.node.visibility import show_cards
from gpuloom.node.wholecards import is_limited
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullContainer, FullPod
from gpuloom.wire.shares import decode_shares, has_shares, take_next

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets. ``cache_dir`` is a path of the host, None without a limiter."""

    container: str
    shares: ContainerShares
    injection: Injection
    cache_dir: str | None


@dataclass(frozen=True, slots=True)
class AllocatePlan:
    """The grants, one per container asked for, and the to-allocate annotation afterwards."""

    grants: tuple[Grant, ...]
    to_allocate: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan needs besides the pod: the settings, the node's cards by UUID, its files, and new ids.

    ``instances`` are the MIG instances that were made for the containers, None where cards are not divided. ``offered``
    are the ids from which the kubelet chooses, if these are instances that others made. ``sick`` are the cards of which
    the kubelet is told that they are unhealthy.
    """

    settings: NodeSettings
    gpus: Mapping[str, Gpu]
    host: HostFacts
    make_id: Callable[[], str]
    instances: Mapping[InstanceKey, MigRuntime] | None = None
    offered: Collection[str] = ()
    sick: Collection[str] = ()


def plan_allocation(pod: FullPod, requests: Sequence[Sequence[str]], around: Surroundings) -> AllocatePlan:
    """Return the plan for as many containers as there are `requests`, each the device ids that the kubelet chose.

    The ids matter only with preferred allocation: otherwise the scheduler chose the cards, and the kubelet only counts.
    Raises AllocationError when the pod has nothing to allocate, or not what was asked for.
    """
    text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    grants = []
    try:
        containers = pod.all_containers[_count_missing_places(pod) :]
        for ids in requests:
            position, shares, text = take_next(text)
            if len(shares) != len(ids):
                raise AllocationError(
                    f"device number not matched: pod {pod.full_name} was scheduled with {len(shares)}, "
                    f"the kubelet asks for {len(ids)}"
                )
            _check_given(pod, position, shares)
            container = _find_container(pod, containers, position)
            check_number(ids, around.settings.resource_name, around.settings)
            if around.instances is not None:
                uuids = [around.instances[position, place].mig_uuid for place in range(len(shares))]
                grants.append(Grant(container.name, shares, _show(uuids, around), cache_dir=None))
            elif is_instance(ids[0]):
                # The kubelet's choice counts: it gives every instance to one container only.
                injection = show_instances(ids, around.settings.resource_name, around)
                grants.append(Grant(container.name, shares, injection, cache_dir=None))
            else:
                grants.append(_grant(pod, container, _settle_cards(pod, shares, ids, around), around))
        return AllocatePlan(tuple(grants), text, is_complete=not has_shares(text))
    except WireError as error:
        raise AllocationError(f"{error} (pod {pod.full_name}, {keys.DEVICES_TO_ALLOCATE})") from error


def show_instances(ids: Sequence[str], resource: str, around: Surroundings) -> Injection:
    """Return what shows a container the instances that the kubelet chose for it, where others made them.

    Raises AllocationError for ids that are not offered.
    """
    check_ids(ids, resource, around.offered, around.settings)
    return _show([physical_id(each) for each in ids], around)


def settle_shares(
    pod: FullPod, requests: Sequence[Sequence[str]], settings: NodeSettings
) -> Mapping[int, ContainerShares]:
    """Return what a call gives containers, by position, where the kubelet's cards count; what is absent is as listed.

    Raises WireError when what is left to allocate cannot be read.
    """
    given: dict[int, ContainerShares] = {}
    if settings.enable_preferred_allocation and settings.mode != "mig":
        text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
        for ids in requests:
            position, shares, text = take_next(text)
            # What does not go together is refused by the plan.
            if len(shares) == len(ids) and not is_instance(ids[0]):
                given[position] = _move(shares, ids)
    return given


def _move(shares: ContainerShares, ids: Sequence[str]) -> ContainerShares:
    """Put shares on the kubelet's cards: one that is on such a card stays, the others move in order."""
    left = [physical_id(each) for each in ids]
    stay = []
    for share in shares:
        stay.append(share.uuid in left)
        if share.uuid in left:
            left.remove(share.uuid)
    return tuple(
        share if stays else replace(share, uuid=left.pop(0)) for share, stays in zip(shares, stay, strict=True)
    )


def _settle_cards(pod: FullPod, shares: ContainerShares, ids: Sequence[str], around: Surroundings) -> ContainerShares:
    """Return the shares with the cards that count, in the order in which limits are numbered."""
    if around.settings.enable_preferred_allocation:
        chosen = [physical_id(each) for each in ids]
        if len(set(chosen)) < len(chosen):
            raise AllocationError(
                f"the kubelet chose a card more than once for pod {pod.full_name}, which asks for {len(chosen)} cards "
                "in one container: its next pod may get others"
            )
        if sorted(chosen) != sorted(share.uuid for share in shares):
            _log.warning(
                "the kubelet chose other cards than the scheduler, whose book-keeping is wrong now",
                pod=pod.full_name,
                kubelet=chosen,
                scheduler=[share.uuid for share in shares],
            )
        shares = _move(shares, ids)
    if around.settings.limit_order == "index":
        indexes = {uuid: gpu.index for uuid, gpu in around.gpus.items()}
        shares = tuple(sorted(shares, key=lambda share: indexes.get(share.uuid, len(indexes))))
    return shares


def _check_given(pod: FullPod, position: int, shares: ContainerShares) -> None:
    """Refuse what is not what the scheduler wrote down as given: by that alone everybody counts what the pod holds."""
    text = pod.annotations.get(keys.DEVICES_ALLOCATED, "")
    if not text:
        return
    given = decode_shares(text)
    if position >= len(given) or given[position] != shares:
        raise AllocationError(
            f"container number {position + 1} of pod {pod.full_name} has other shares in {keys.DEVICES_TO_ALLOCATE} "
            f"than in {keys.DEVICES_ALLOCATED}: somebody has changed them since it was scheduled"
        )


def _count_missing_places(pod: FullPod) -> int:
    """Return how many of a pod's first containers have no place in its device lists.

    Raises WireError when these cannot be read.
    """
    annotations = pod.annotations
    text = annotations.get(keys.DEVICES_ALLOCATED) or annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    found = decode_shares(text)
    return len(in_places(found, len(pod.all_containers))) - len(found)


def _find_container(pod: FullPod, containers: Sequence[FullContainer], position: int) -> FullContainer:
    if position >= len(containers):
        raise AllocationError(
            f"pod {pod.full_name} has {len(containers)} containers, but {keys.DEVICES_TO_ALLOCATE} gives devices to "
            f"number {position + 1}"
        )
    return containers[position]


def _grant(pod: FullPod, container: FullContainer, shares: ContainerShares, around: Surroundings) -> Grant:
    settings = around.settings
    for share in shares:
        if share.uuid not in around.gpus:
            raise AllocationError(
                f"container {container.name} of pod {pod.full_name} was scheduled to card {share.uuid}, which this "
                "node does not offer"
            )
        if share.uuid in around.sick:
            raise AllocationError(
                f"container {container.name} of pod {pod.full_name} was scheduled to card {share.uuid}, which is "
                "unhealthy by now: the next pod gets another"
            )
        # The limiter takes 0 for no limit at all.
        if share.memory_mib <= 0:
            raise AllocationError(
                f"container {container.name} of pod {pod.full_name} was scheduled with {share.memory_mib} MiB of card "
                f"{share.uuid}, which would not be limited: ask for memory that is more than nothing"
            )
    cache_dir = name_cache_dir(pod.metadata.uid, container.name, settings)
    visible = _show([share.uuid for share in shares], around)
    limited = build_limiter(
        container,
        shares,
        settings,
        around.host,
        cache=(cache_dir, around.make_id()),
        is_loaded=is_limited(pod, shares, around.gpus, settings),
    )
    return Grant(container=container.name, shares=shares, injection=visible + limited, cache_dir=cache_dir)


def _show(uuids: Sequence[str], around: Surroundings) -> Injection:
    injection = around.settings.injection
    request_id = around.make_id() if injection.uses_cdi else ""
    return show_cards(uuids, injection, around.gpus, around.host, request_id=request_id)
