"""Go's notation of durations, which HAMi's messages and flags use (scheduler 7.2)."""

from datetime import timedelta


def format_duration(duration: timedelta) -> str:
    """Write whole seconds as Go does: ``28s``, ``5m0s``, ``1h0m0s``."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
