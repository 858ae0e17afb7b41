"""What a decision writes on its pod, and reading it back (wire protocol 3.1, scheduler 4.2 step 9)."""

from gpuloom.engine.ledger import Reservation
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import PodShares
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import VGPU_NODE, VGPU_TIME
from gpuloom.wire.mig import decode_mig_allocations, encode_mig_allocations
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares, encode_shares

_LONGEST_TIME = 18


def write_decision(reservation: Reservation, profile: Profile) -> dict[str, str | None]:
    """Return the annotations of a decision; None is one that must vanish."""
    write = profile.write
    shares = encode_shares(reservation.shares[profile.word])
    annotations: dict[str, str | None] = {
        VGPU_NODE: reservation.node,
        VGPU_TIME: str(reservation.decided_at),
        write.to_allocate: shares,
        write.allocated: shares,
    }
    if write.instances:
        annotations[write.instances] = encode_mig_allocations(reservation.instances) if reservation.instances else None
    return annotations


def read_decided_at(pod: Pod) -> int:
    """Read when a pod was given its cards, in Unix seconds; 0 when its annotation does not say."""
    text = pod.annotations.get(VGPU_TIME, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TIME else 0


def read_shares(pod: Pod, profile: Profile) -> PodShares:
    """Read what a pod's annotations say it was given.

    Raises WireError when they cannot be read.
    """
    text = pod.annotations.get(profile.write.allocated)
    return {} if text is None else {profile.word: decode_shares(text)}


def read_instances(pod: Pod, profile: Profile) -> tuple[MigAllocation, ...]:
    """Read which parts of divided cards a pod was given; a list that is broken counts as missing, as in HAMi."""
    try:
        return decode_mig_allocations(pod.annotations.get(profile.write.instances, ""))
    except WireError:
        return ()
