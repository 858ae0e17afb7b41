"""The handshake annotation between scheduler and node plugin (wire protocol 2.3)."""

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo

_MOMENT = re.compile(r"(\d{4})([-.])(\d{2})\2(\d{2}) (\d{2}):(\d{2}):(\d{2})", re.ASCII)
_LAYOUT = "%Y-%m-%d %H:%M:%S"
_REQUESTING = "Requesting"
_DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Handshake:
    """The annotation: whether the scheduler is asking, and since when (None: unreadable).

    Everything else (``Reported ...`` of older plugins, ``Deleted_...`` of older schedulers, nothing) does not ask.
    """

    requesting: bool
    since: datetime | None = None


def decode_handshake(text: str, zone: tzinfo) -> Handshake:
    """Read a handshake; times carry no zone on the wire, ``zone`` is the scheduler's. Never raises."""
    if _REQUESTING not in text:
        return Handshake(requesting=False)
    _, *parts = text.split("_", maxsplit=2)
    return Handshake(requesting=True, since=_decode_moment(parts[0], zone) if parts else None)


def encode_requesting(moment: datetime) -> str:
    """Write the scheduler's question, in the zone of ``moment``."""
    return f"{_REQUESTING}_{moment.strftime(_LAYOUT)}"


def encode_deleted(moment: datetime) -> str:
    """Write that the scheduler removed the node's cards, as HAMi did up to 2.9; later the key is removed instead."""
    return f"{_DELETED}_{moment.strftime(_LAYOUT)}"


def _decode_moment(text: str, zone: tzinfo) -> datetime | None:
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, _, *rest = match.groups()
    month, day, hour, minute, second = map(int, rest)
    try:
        return datetime(int(year), month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
