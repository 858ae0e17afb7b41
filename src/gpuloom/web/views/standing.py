"""What a reservation says about itself, in the words of the views."""

from collections.abc import Sequence

from gpuloom.engine.explanation.values import Given
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.pods.trim import TrimmedPod
from gpuloom.web.views.source import Source
from gpuloom.web.views.values import Standing


def standing_of(held: Reservation) -> Standing:
    """Say whether the pod is bound or only reserved for."""
    return "bound" if held.status is ReservationStatus.CONFIRMED else "reserved"


def container_names(source: Source, held: Reservation) -> Sequence[str]:
    """Return the names of a pod's containers in the order of its shares, empty if the pod is not known."""
    pod = source.state.pods.get(held.uid)
    if isinstance(pod, TrimmedPod):
        return pod.container_names
    return [container.name for container in pod.all_containers] if pod else []


def list_given(source: Source, held: Reservation) -> tuple[Given, ...]:
    """Return the shares of a pod, container by container."""
    names = container_names(source, held)
    instances = {(one.container_index, one.device_index): one.profile for one in held.instances}
    return tuple(
        Given(
            container=names[place] if place < len(names) else f"#{place}",
            uuid=share.uuid,
            memory_mib=share.memory_mib,
            cores=share.cores,
            instance=instances.get((place, device), ""),
        )
        for given in held.shares.values()
        for place, shares in enumerate(given)
        for device, share in enumerate(shares)
    )
