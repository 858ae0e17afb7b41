"""What an Allocate call means for a pod: who gets which shares, and what is left (device plugin 10.2). Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuloom.model.share import ContainerShares
from gpuloom.node.errors import AllocationError
from gpuloom.node.response import Mount, build_environment, build_mounts, name_cache_dir
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.shares import has_shares, take_next


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets. ``cache_dir`` is a path of the host."""

    container: str
    shares: ContainerShares
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cache_dir: str


@dataclass(frozen=True, slots=True)
class AllocatePlan:
    """The grants, one per container asked for, and the to-allocate annotation afterwards."""

    grants: tuple[Grant, ...]
    to_allocate: str
    is_complete: bool


def plan_allocation(
    pod: Pod,
    counts: Sequence[int],
    settings: NodeSettings,
    *,
    make_cache_id: Callable[[], str],
    has_license: bool = False,
) -> AllocatePlan:
    """Serve as many containers of the pod as there are `counts`, each a number of devices.

    The kubelet's own choice of ids does not matter: the scheduler decided about cards, the kubelet only counts.
    Raises AllocationError when the pod has nothing to allocate, or something else than was asked for.
    """
    containers = tuple(pod.all_containers)
    text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    grants = []
    try:
        for count in counts:
            position, shares, text = take_next(text)
            if len(shares) != count:
                raise AllocationError(
                    f"device number not matched: pod {pod.full_name} was scheduled with {len(shares)}, "
                    f"the kubelet asks for {count}"
                )
            container = _find_container(pod, containers, position)
            cache_id = make_cache_id()
            grants.append(_grant(pod, container, shares, settings, cache_id=cache_id, has_license=has_license))
        return AllocatePlan(tuple(grants), text, is_complete=not has_shares(text))
    except WireError as error:
        raise AllocationError(f"{error} (pod {pod.full_name}, {keys.DEVICES_TO_ALLOCATE})") from error


def _find_container(pod: Pod, containers: Sequence[Container], position: int) -> Container:
    if position >= len(containers):
        raise AllocationError(
            f"pod {pod.full_name} has {len(containers)} containers, but {keys.DEVICES_TO_ALLOCATE} gives devices to "
            f"number {position + 1}"
        )
    return containers[position]


def _grant(
    pod: Pod,
    container: Container,
    shares: ContainerShares,
    settings: NodeSettings,
    *,
    cache_id: str,
    has_license: bool,
) -> Grant:
    cache_dir = name_cache_dir(pod.metadata.uid, container.name, settings)
    return Grant(
        container=container.name,
        shares=shares,
        environment=build_environment(shares, settings, cache_id=cache_id),
        mounts=build_mounts(container, settings, cache_dir=cache_dir, has_license=has_license),
        cache_dir=cache_dir,
    )
