"""The handshake annotation between scheduler and node plugin (wire protocol 2.3)."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from gpuloom.wire.errors import WireError

_LAYOUTS = ("%Y-%m-%d %H:%M:%S", "%Y.%m.%d %H:%M:%S")
_REQUESTING = "Requesting"


@dataclass(frozen=True, slots=True)
class Handshake:
    """What stands in the annotation: whether the scheduler is asking, and since when (None: unreadable)."""

    requesting: bool
    since: datetime | None = None


def decode_handshake(text: str, zone: tzinfo) -> Handshake:
    """Read a handshake; times carry no zone on the wire, ``zone`` is the scheduler's. Never raises."""
    if _REQUESTING not in text:
        return Handshake(requesting=False)
    _, separator, moment = text.partition("_")
    if not separator:
        return Handshake(requesting=True)
    try:
        return Handshake(requesting=True, since=_decode_moment(moment).replace(tzinfo=zone))
    except WireError:
        return Handshake(requesting=True)


def encode_requesting(moment: datetime) -> str:
    """Write the scheduler's question, in the zone of ``moment``."""
    return f"{_REQUESTING}_{moment.strftime(_LAYOUTS[0])}"


def _decode_moment(text: str) -> datetime:
    for layout in _LAYOUTS:
        try:
            return datetime.strptime(text, layout)  # noqa: DTZ007 - the wire carries no zone
        except ValueError:
            continue
    raise WireError(f"not a handshake time: {text[:80]!r}")
