"""What a decision writes on its pod, and reading it back (wire protocol 3.1, scheduler 4.2 step 9, vendors 1.7)."""

from collections.abc import Iterable, Mapping

from gpuloom.engine.demand import read_tenancy
from gpuloom.engine.ledger import NOBODY_ELSE, Reservation
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import NO_TENANCY, ContainerShares, PodShares, Tenancy
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.hooks import ANNOTATE, RECALL
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import VGPU_NODE, VGPU_TIME
from gpuloom.wire.mig import decode_mig_allocations, encode_mig_allocations
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares, encode_shares
from gpuloom.wire.words import decode_unix_time

_NANOSECONDS = 10**9


def write_decision(reservation: Reservation, catalog: Iterable[Profile]) -> dict[str, str | None]:
    """Return the annotations of a decision; None is one that must vanish."""
    annotations: dict[str, str | None] = {
        VGPU_NODE: reservation.node,
        VGPU_TIME: str(reservation.decided_at),
    }
    for profile in catalog:
        write = profile.write
        if profile.word in reservation.shares:
            shares = encode_shares(reservation.shares[profile.word])
            keys = (write.to_allocate, write.allocated)
            annotations |= {key: shares for key in keys if key}
            if write.instances:
                instances = reservation.instances
                annotations[write.instances] = encode_mig_allocations(instances) if instances else None
    # Numbers make times of decisions of one second different, in order.
    time_ns = reservation.decided_at * _NANOSECONDS + reservation.number
    times = {"{time_s}": str(reservation.decided_at), "{time_ns}": str(time_ns)}
    for key, value in reservation.extras.items():
        for mark, time in times.items():
            value = value.replace(mark, time)  # noqa: PLW2901 - the same text with its times
        annotations[key] = value
    return annotations


def read_decided_at(pod: Pod) -> int:
    """Read when a pod was given its cards, in Unix seconds; 0 when its annotation does not say."""
    return decode_unix_time(pod.annotations.get(VGPU_TIME, "")) or 0


def annotate(decided: Decided, profile: Profile) -> dict[str, str]:
    """Return what else is written for one vendor; the times are filled in when it is written."""
    filled = _fill_templates(decided, profile)
    hook = ANNOTATE.get(profile.write.annotate)
    return filled | (hook(decided, profile) if hook else {})


def _fill_templates(decided: Decided, profile: Profile) -> dict[str, str]:
    first = next((shares for shares in decided.shares if shares), ())
    if not first or not profile.write.extra:
        return {}
    factor = max(profile.request.memory_factor, 1)
    indexes = decided.indexes(first)
    values = {
        "{node}": decided.node,
        "{index}": str(indexes[0]),
        "{indexes}": ",".join(map(str, indexes)),
        "{cores}": str(first[0].cores),
        "{memory_units}": str(first[0].memory_mib // factor),
    }
    return {key: _fill(template, values) for key, template in profile.write.extra.items()}


def _fill(template: str, values: Mapping[str, str]) -> str:
    for mark, value in values.items():
        template = template.replace(mark, value)
    return template


def read_shares(pod: Pod, catalog: Catalog) -> PodShares:
    """Read what a pod's annotations say it was given, of every vendor.

    Raises WireError when any of it cannot be read: then nothing of the pod counts.
    """
    return {profile.word: read_shares_of(pod, profile) for profile in catalog.given_by(pod.annotations)}


def read_shares_of(pod: Pod, profile: Profile) -> tuple[ContainerShares, ...]:
    """Read what a pod's annotations say it was given of one vendor.

    Raises WireError when that cannot be read.
    """
    found = decode_shares(pod.annotations[profile.write.allocated])
    if recall := RECALL.get(profile.write.recall):
        return recall(found, tuple(container.name for container in pod.all_containers), pod.annotations)
    return found


def read_tenancies(pod: Pod, catalog: Catalog) -> Mapping[str, Tenancy]:
    """Read with whom a pod shares cards, of every vendor that cares."""
    annotations = pod.annotations
    if catalog.tenancy_keys.isdisjoint(annotations):
        return NOBODY_ELSE
    found = {profile.word: read_tenancy(annotations, profile.select) for profile in catalog.mindful_of_tenants}
    return {word: tenancy for word, tenancy in found.items() if tenancy != NO_TENANCY} or NOBODY_ELSE


def read_instances(pod: Pod, catalog: Catalog) -> tuple[MigAllocation, ...]:
    """Read which parts of divided cards a pod was given; a list that is broken counts as missing, as in HAMi."""
    annotations = pod.annotations
    texts = [annotations[key] for key in catalog.instance_keys if key in annotations]
    if not texts:
        return ()
    try:
        return tuple(one for text in texts for one in decode_mig_allocations(text))
    except WireError:
        return ()
