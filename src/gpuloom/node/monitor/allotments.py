"""What each container of the node was given, as the API server shows it. Pure.

Cards come from the allocation, the priority from the spec. Containers write their own regions, so what they have is
never read there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuloom.model.share import ContainerShares, in_places
from gpuloom.node.replicas import card_of_share, is_instance
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.keys import DEVICES_ALLOCATED
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import round_quantity
from gpuloom.wire.shares import decode_shares

DEFAULT_PRIORITY = 1
"""HAMi-core's priority for containers that ask for none."""

_BYTES_PER_MIB = 2**20
_MOST_CARDS = 16

ContainerKey = tuple[str, str]
"""UID of the pod and name of the container."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one container has: ``limits`` is how many bytes of which card, by UUID, in the order of its list.

    Without cards it blocks nobody and waits for nobody. Of one that ``has_ended`` nothing runs, but its region
    still says what a program used that was killed.
    """

    namespace: str
    pod: str
    container: str
    priority: int
    limits: Mapping[str, int]
    has_ended: bool = False


class Allotments:
    """What the containers of the node have; read again only for changed pods, since an annotation may be very long."""

    def __init__(self, priority_resource: str) -> None:
        self._priority_resource = priority_resource
        self._read: dict[str, tuple[FullPod, Mapping[ContainerKey, Allotment]]] = {}

    def read(self, pods: Mapping[str, FullPod]) -> Mapping[ContainerKey, Allotment]:
        """Return what each container has, without those of pods that have ended."""
        known, self._read = self._read, {}
        allotments: dict[ContainerKey, Allotment] = {}
        for uid, pod in pods.items():
            before = known.get(uid)
            found = before[1] if before and before[0] is pod else allot(uid, pod, self._priority_resource)
            self._read[uid] = (pod, found)
            allotments |= found
        return allotments


def allot(uid: str, pod: FullPod, priority_resource: str) -> Mapping[ContainerKey, Allotment]:
    """Return what a pod's containers have: no cards if its annotation cannot be read, nothing once it has ended."""
    shares = {container.name: shares for container, shares in list_shares(pod)}
    ended = pod.ended_containers
    return {
        (uid, container.name): Allotment(
            pod.namespace,
            pod.name,
            container.name,
            read_priority(container, priority_resource),
            _read_limits(shares.get(container.name, ())),
            has_ended=container.name in ended,
        )
        for container in (() if pod.is_over else pod.all_containers)
    }


def list_shares(pod: Pod) -> Iterator[tuple[Container, ContainerShares]]:
    """Yield each container with its shares; none of a pod that has ended or whose list cannot be read."""
    text = "" if pod.is_over else pod.annotations.get(DEVICES_ALLOCATED, "")
    try:
        lists = decode_shares(text)
    except WireError:
        return
    containers = pod.all_containers
    yield from zip(containers, in_places(lists, len(containers)), strict=False)


def read_priority(container: Container, resource: str) -> int:
    """Return a container's priority as the webhook gives it to HAMi-core (scheduler 2.2): a lower number goes first."""
    try:
        return round_quantity(container.limits[resource])
    except (KeyError, WireError):
        return DEFAULT_PRIORITY


def _read_limits(shares: ContainerShares) -> Mapping[str, int]:
    """Return the limits of the cards that HAMi-core shares; instances are left out."""
    cards = (share for share in shares[:_MOST_CARDS] if not is_instance(share.uuid) and _is_whole(share.uuid))
    return {share.uuid: max(share.memory_mib, 0) * _BYTES_PER_MIB for share in cards}


def _is_whole(uuid: str) -> bool:
    return card_of_share(uuid) == uuid
