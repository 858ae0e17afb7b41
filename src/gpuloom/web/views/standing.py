"""What a reservation says about itself, in the words of the views."""

from collections.abc import Sequence

import msgspec

from gpuloom.engine.explanation.cores import share_in_per_cent
from gpuloom.engine.explanation.values import Given
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.scheduler.pods.trim import TrimmedPod
from gpuloom.web.views.source import Source
from gpuloom.web.views.values import Standing


def standing_of(held: Reservation) -> Standing:
    """Say whether the pod is bound or only reserved for."""
    return "bound" if held.status is ReservationStatus.CONFIRMED else "reserved"


def container_names(source: Source, held: Reservation) -> Sequence[str]:
    """Return the names of a pod's containers in the order of its shares, empty if the pod is not known."""
    pod = source.state.shown.pods.get(held.uid)
    if isinstance(pod, TrimmedPod):
        return pod.container_names
    return [container.name for container in pod.all_containers] if pod else []


def list_given(source: Source, held: Reservation) -> tuple[Given, ...]:
    """Return the shares of a pod, container by container."""
    names, cluster = container_names(source, held), source.state.cluster
    instances = {(one.container_index, one.device_index): one.profile for one in held.instances}
    return tuple(
        Given(
            container=names[place] if place < len(names) else f"#{place}",
            uuid=share.uuid,
            memory_mib=share.memory_mib,
            cores=share_in_per_cent(cluster, held.node, word, share.uuid, share.cores),
            instance=instances.get((place, device), ""),
        )
        for word, given in held.shares.items()
        for place, shares in enumerate(given)
        for device, share in enumerate(shares)
    )


def tell_usage(source: Source, held: Reservation, word: str, uuid: str, usage: Usage) -> Usage:
    """Return what a pod holds of one card, or of a part of it, with cores in per cent of the card."""
    cores = share_in_per_cent(source.state.cluster, held.node, word, uuid, usage.cores)
    return usage if cores == usage.cores else msgspec.structs.replace(usage, cores=cores)


def sum_usage(source: Source, held: Reservation) -> Usage:
    """Sum what a pod holds of all its cards, cores in per cent of a card."""
    by_vendor = held.usage_by_vendor().items()
    told = (tell_usage(source, held, word, uuid, one) for word, by_card in by_vendor for uuid, one in by_card.items())
    return sum(told, start=NOTHING)
