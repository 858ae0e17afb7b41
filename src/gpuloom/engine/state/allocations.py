"""What a pod's annotations say it was given (wire protocol 3.1, vendors 1.7)."""

import sys
from collections.abc import Mapping

from gpuloom.engine.request.demand import read_container_types, read_tenancy
from gpuloom.engine.state.ledger import NOBODY_ELSE, NOTHING_ELSE, Reservation, ReservationStatus
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import NO_TENANCY, ContainerShares, PodShares, Tenancy
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.hooks import RECALL
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import VGPU_TIME
from gpuloom.wire.mig import decode_mig_allocations
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares
from gpuloom.wire.words import decode_unix_time


def read_decided_at(pod: Pod) -> int:
    """Read when a pod was given its cards, in Unix seconds; 0 when its annotation does not say."""
    return decode_unix_time(pod.annotations.get(VGPU_TIME, "")) or 0


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


def reserve(
    pod: Pod,
    catalog: Catalog,
    node: str,
    shares: PodShares,
    *,
    status: ReservationStatus,
    since: float,
    decided_at: int,
    instances: tuple[MigAllocation, ...] = (),
    extras: Mapping[str, str] = NOTHING_ELSE,
) -> Reservation:
    """Return what a pod holds on a node by these shares; :class:`Reservation` says what the others are."""
    return Reservation(
        uid=pod.metadata.uid,
        # Very many pods are in few namespaces, and on few nodes.
        namespace=sys.intern(pod.namespace),
        name=pod.name,
        node=sys.intern(node),
        shares=shares,
        container_types=read_container_types(pod),
        status=status,
        since=since,
        decided_at=decided_at,
        instances=instances,
        tenancies=read_tenancies(pod, catalog),
        extras=extras,
        priority=pod.priority,
        started_at=pod.started_at,
    )


def read_instances(pod: Pod, catalog: Catalog) -> tuple[MigAllocation, ...]:
    """Read which parts of divided cards a pod was given; a list that is broken counts as missing, as in HAMi."""
    annotations = pod.annotations
    texts = [annotations[key] for key in catalog.instance_keys if key in annotations]
    try:
        return tuple(one for text in texts for one in decode_mig_allocations(text))
    except WireError:
        return ()
