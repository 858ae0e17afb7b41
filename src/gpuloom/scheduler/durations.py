"""Go's notation of durations, which HAMi's messages and flags use (scheduler 7.2)."""

import re

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)"
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def format_seconds(seconds: float) -> str:
    """Write whole seconds as Go does: ``28s``, ``5m0s``, ``1h0m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def parse_seconds(text: str) -> float:
    """Read Go's notation, such as ``5m``, ``1h5m0s`` or ``300ms``, or a bare number of seconds.

    Raises ValueError.
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration such as 5m or 28s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text, re.ASCII))
