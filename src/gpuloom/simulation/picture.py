"""A picture of allocation over arrivals, as SVG that loads nothing."""

from collections.abc import Iterator, Sequence
from html import escape

from gpuloom.simulation.measure import FIRST_PERCENT, LAST_PERCENT
from gpuloom.simulation.results import MeanResult

_WIDTH, _HEIGHT = 760, 460
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 48, 560, 400
_FIRST_SHOWN = 50
"""Until half of the cluster is asked for, every policy gives what is asked."""
_COLOURS = ("#0b5fa5", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be185d", "#0f766e", "#475569", "#991b1b")
_DASHES = ("", "8 4", "2 3")


def draw_curves(means: Sequence[MeanResult], title: str) -> str:
    """Draw how much is allocated when so much has arrived, a line a policy, with what bounds all of them."""
    lowest = _find_lowest(means)
    parts = [*_draw_axes(lowest), *_draw_ceiling(lowest)]
    bound = next((mean.bound for mean in means if mean.bound is not None), None)
    if bound is not None:
        parts += _draw_bound(bound.mean, lowest)
    for number, mean in enumerate(means):
        parts += _draw_policy(mean, number, lowest)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" aria-labelledby="title" font-family="sans-serif" font-size="13" fill="#111111">'
        f'<title id="title">{escape(title)}</title><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
        + "\n".join([_text(_LEFT, 26, title, "start"), *parts])
        + "</svg>\n"
    )


def _find_lowest(means: Sequence[MeanResult]) -> int:
    """Return where the axis of allocation begins, so that what differs fills the picture."""
    least = min(mean.curve[_FIRST_SHOWN - FIRST_PERCENT] for mean in means)
    return max(int(least // 10) * 10, 0)


def _draw_axes(lowest: int) -> Iterator[str]:
    for percent in range(_FIRST_SHOWN, LAST_PERCENT + 1, 10):
        x = _x(percent)
        yield f'<path d="M{x} {_TOP}V{_BOTTOM}" stroke="#e5e7eb"/>'
        yield _text(x, _BOTTOM + 18, str(percent))
    for percent in range(lowest, 101, 10):
        y = _y(percent, lowest)
        yield f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#e5e7eb"/>'
        yield _text(_LEFT - 8, y + 4, str(percent), "end")
    yield _text((_LEFT + _RIGHT) // 2, _BOTTOM + 40, "GPUs asked for, % of the cluster")
    middle = (_TOP + _BOTTOM) // 2
    yield (
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        "GPUs allocated, % of the cluster</text>"
    )


def _draw_ceiling(lowest: int) -> Iterator[str]:
    """Nobody allocates more than was asked for, or than there is."""
    path = f"M{_x(_FIRST_SHOWN)} {_y(max(_FIRST_SHOWN, lowest), lowest)}L{_x(100)} {_y(100, lowest)}H{_RIGHT}"
    yield f'<path d="{path}" fill="none" stroke="#9ca3af" stroke-dasharray="2 4"/>'


def _draw_bound(bound: float, lowest: int) -> Iterator[str]:
    x, y = _x(100), _y(bound, lowest)
    yield f'<path d="M{x - 9} {y}H{x + 9}" stroke="#111111" stroke-width="2.5"/>'
    yield _text(x, y - 6, f"bound {bound:.2f}", "end")


def _draw_policy(mean: MeanResult, number: int, lowest: int) -> Iterator[str]:
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
    style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
    points = " ".join(
        f"{_x(percent)},{_y(allocated, lowest)}"
        for percent, allocated in enumerate(mean.curve, FIRST_PERCENT)
        if percent >= _FIRST_SHOWN
    )
    yield f'<polyline points="{points}" {style}/>'
    y = _TOP + 12 + 22 * number
    yield f'<path d="M{_RIGHT + 16} {y - 4}h26" {style}/>'
    yield _text(_RIGHT + 48, y, f"{mean.policy} {mean.a100.mean:.2f}", "start")


def _x(percent: float) -> float:
    return round(_LEFT + (percent - _FIRST_SHOWN) / (LAST_PERCENT - _FIRST_SHOWN) * (_RIGHT - _LEFT), 1)


def _y(percent: float, lowest: int) -> float:
    return round(_BOTTOM - (percent - lowest) / (100 - lowest) * (_BOTTOM - _TOP), 1)


def _text(x: float, y: float, line: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(line)}</text>'
