"""A grant whose answer no kubelet heard is given again, to the same container (decision 045). Pure.

A kubelet that is restarted between a grant and its own notes asks anew for the pod, container by container. What a
container was granted still stands on the pod, so nothing is written for it a second time.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from gpuloom.model.share import ContainerShares, in_places
from gpuloom.node.knownpods import KnownPod
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.shares import decode_shares


def reopen(pod: FullPod, known: KnownPod) -> FullPod | None:
    """Return a pod with the grant to give again as the only one to allocate, None where there is none.

    ``known`` is the pod in its kubelet's book. A kubelet asks for containers in their order, so it asks for the first
    of those that have no devices there. The book does not show what init containers hold that end: where these have
    shares, nobody can tell which container asks.
    """
    try:
        found = decode_shares(pod.annotations.get(keys.DEVICES_ALLOCATED, ""))
        given, left = _place(found, pod), _place(decode_shares(pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")), pod)
    except WireError:
        return None
    place = _find_asking(pod, known, given)
    if place is None or (place < len(left) and left[place]):
        return None
    return _leave_only(pod, place - (len(given) - len(found)))


def _place(found: tuple[ContainerShares, ...], pod: FullPod) -> tuple[ContainerShares, ...]:
    return in_places(found, len(pod.all_containers))


def _find_asking(pod: FullPod, known: KnownPod, given: Sequence[ContainerShares]) -> int | None:
    """Return the place of the container that asks now."""
    holders = [(place, one.name) for place, one in enumerate(pod.all_containers) if place < len(given) and given[place]]
    if any(name not in known.devices for _, name in holders):
        return None
    return next((place for place, name in holders if not known.devices[name]), None)


def _leave_only(pod: FullPod, position: int) -> FullPod:
    pieces = pod.annotations[keys.DEVICES_ALLOCATED].split(";")
    text = ";".join(piece if at == position else "" for at, piece in enumerate(pieces))
    annotations = {**pod.annotations, keys.DEVICES_TO_ALLOCATE: text}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
