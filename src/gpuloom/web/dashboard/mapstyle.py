"""The style sheet of the map: its bars are backgrounds, so that thousands of cards need no elements."""

from collections.abc import Iterator
from functools import cache

from gpuloom.web.views.heat import LEVELS

PLACES = "abcdefghijklmnop"
"""As many cards stand in one box, in two rows; a node with more gets more boxes."""
ROW = 8


@cache
def draw_style() -> str:
    """Write the rules of the boxes' classes: for each place how full its card is, and what is wrong with it."""
    return "\n".join(_each_rule()) + "\n"


def _each_rule() -> Iterator[str]:
    yield f".cells{{{';'.join(f'--f{place}:none;--o{place}:none' for place in PLACES)}}}"
    for columns in range(1, ROW + 1):
        yield f".n{columns}{{--n:{columns};--m:{max(columns - 1, 1)}}}"
    for place in PLACES:
        for level in range(LEVELS):
            yield f".{place}{level}{{--f{place}:var(--level{level})}}"
        yield f".{place}X{{--o{place}:var(--closed)}}"
        yield f".{place}C{{--o{place}:var(--cordoned)}}"
        yield f".{place}U{{--o{place}:var(--unhealthy)}}"
    yield _lay(".cells::after", PLACES[:ROW], "100%")
    yield _lay(".cells.r2::after", PLACES, "calc(50% - var(--gap)/2)")


def _lay(which: str, places: str, height: str) -> str:
    layers = ",".join(f"var(--o{place}),var(--f{place})" for place in places)
    spots = ",".join(
        f"{spot},{spot}"
        for number in range(len(places))
        for spot in [f"calc({number % ROW}*100%/var(--m)) {'0' if number < ROW else '100%'}"]
    )
    size = f"calc(100%/var(--n) - var(--gap)) {height}"
    return f"{which}{{background-image:{layers};background-position:{spots};background-size:{size}}}"
