"""The last hour of a figure as a small line: one drawing with a name that says in words what it shows."""

from collections.abc import Iterator
from itertools import groupby

from markupsafe import Markup, escape

from gpuloom.web.monitors.hours import POINTS, Hour

_HIGH = 16
_MINUTE = _HOUR = 60


def draw_sparkline(hour: Hour, label: str, point_seconds: int) -> Markup:
    """Draw per cents from 0 to 100; nothing where nothing is known, and a gap where a while is not known."""
    known = [value for value in hour if value is not None]
    if not known:
        return Markup("")
    span = f"last {_tell_span(POINTS * point_seconds // _MINUTE)}"
    range_ = f"{min(known)} to {max(known)} %" if min(known) != max(known) else f"{known[0]} %"
    words = escape(f"{label}, {span}: {range_}")
    path = " ".join(_list_lines(hour))
    # Numbers and words of our own; the label was escaped above.
    return Markup(  # noqa: S704
        f'<svg class="spark" viewBox="0 0 {POINTS} {_HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{words}"><path d="{path}"/></svg>'
    )


def _tell_span(minutes: int) -> str:
    return f"{minutes // _HOUR} hours" if minutes > _HOUR and minutes % _HOUR == 0 else f"{minutes} minutes"


def _list_lines(hour: Hour) -> Iterator[str]:
    """Give a line for each while that is known; one point alone is a dot."""
    for is_known, group in groupby(enumerate(hour), key=lambda one: one[1] is not None):
        points = [f"{x} {_HIGH - 1 - (value or 0) * (_HIGH - 2) // 100}" for x, value in group]
        if is_known:
            yield f"M{points[0]}{'L' + 'L'.join(points[1:]) if points[1:] else 'h.1'}"
