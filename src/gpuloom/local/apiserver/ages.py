"""Ages as kubectl prints them."""

import datetime as dt

from gpuloom.local.apiserver.objects import parse_time

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def show_age(timestamp: str | None, now: dt.datetime) -> str:
    """Return the time since a timestamp, as ``kubectl get`` shows it."""
    if not timestamp:
        return "<unknown>"
    try:
        return show_duration(int((now - parse_time(timestamp)).total_seconds()))
    except (ValueError, TypeError):
        return "<invalid>"


def show_duration(seconds: int) -> str:
    """Return a duration with the precision that a person wants at its size."""
    if seconds < -1:
        return "<invalid>"
    steps = (
        (2 * MINUTE, 1, "s", 0, ""),
        (10 * MINUTE, MINUTE, "m", 1, "s"),
        (3 * HOUR, MINUTE, "m", 0, ""),
        (8 * HOUR, HOUR, "h", MINUTE, "m"),
        (2 * DAY, HOUR, "h", 0, ""),
        (8 * DAY, DAY, "d", HOUR, "h"),
        (2 * YEAR, DAY, "d", 0, ""),
        (8 * YEAR, YEAR, "y", DAY, "d"),
    )
    seconds = max(seconds, 0)
    for bound, unit_s, unit, rest_s, rest_unit in steps:
        if seconds < bound:
            whole, rest = divmod(seconds, unit_s)
            shown = rest // rest_s if rest_s else 0
            return f"{whole}{unit}{shown}{rest_unit}" if shown else f"{whole}{unit}"
    return f"{seconds // YEAR}y"
