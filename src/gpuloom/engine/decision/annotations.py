"""What a decision writes on its pod (wire protocol 3.1, scheduler 4.2 step 9, vendors 1.7)."""

from collections.abc import Iterable, Mapping

from gpuloom.engine.state.ledger import Reservation
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.hooks import ANNOTATE
from gpuloom.vendors.profile import Profile
from gpuloom.wire.keys import VGPU_NODE, VGPU_TIME
from gpuloom.wire.mig import encode_mig_allocations
from gpuloom.wire.shares import encode_shares

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
    return annotations | {key: _fill(value, times) for key, value in reservation.extras.items()}


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
