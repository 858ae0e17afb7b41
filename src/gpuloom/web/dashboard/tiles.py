"""The boxes of the map: one element a node, whose cards are bars that the style sheet draws by the names of classes.

There are thousands of cards, so they are no elements, and nodes are written without a template. A class names a place
and what is drawn there: ``a3`` is the first card, up to its third level; ``aX`` that it is closed, ``aC`` cordoned,
``aU`` unhealthy.
"""

from functools import lru_cache
from urllib.parse import quote

from markupsafe import Markup, escape

from gpuloom.engine.explanation.counting import tell_count
from gpuloom.web.dashboard.mapstyle import PLACES, ROW
from gpuloom.web.views.heat import Tile, read_letter

_MOST_REMEMBERED = 16_384


@lru_cache(maxsize=_MOST_REMEMBERED)
def draw_tile(tile: Tile, *, is_named: bool = True) -> Markup:
    """Draw a node with a bar for each card; what was drawn before is not drawn again.

    Its name is text where ``is_named``, else only what the link is called: laying out a thousand texts that are too
    small to be seen took Chromium a quarter of the time of the whole page.
    """
    name, words = escape(tile.node), escape(describe(tile))
    first, *others = _split(tile.cards) or [""]
    kinds = " ".join(filter(None, (_name_classes(first), "barred" if tile.problem else "")))
    more = "".join(f'<span class="{_name_classes(cards)}"></span>' for cards in others)
    link = f'<a class="{kinds}" href="/nodes/{quote(tile.node, safe="")}" title="{words}" aria-label="{words}">'
    shown = name if is_named else ""
    text = f'<li id="n-{name}">{link}{shown}{more}</a></li>\n'
    return Markup(text)  # noqa: S704 - what comes from the cluster was escaped above; classes are our own


def _split(cards: str) -> list[str]:
    return [cards[first : first + len(PLACES)] for first in range(0, len(cards), len(PLACES))]


def _name_classes(cards: str) -> str:
    """Name the classes that draw up to sixteen cards."""
    if not cards:
        return "cells none"
    parts = ["cells", f"n{min(len(cards), ROW)}", *(["r2"] if len(cards) > ROW else [])]
    for place, letter in zip(PLACES, cards, strict=False):
        level, state = read_letter(letter)
        parts += [f"{place}{level}", *([place + state] if state else [])]
    return " ".join(parts)


def describe(tile: Tile) -> str:
    """Say what the boxes show."""
    parts = []
    if tile.cards:
        parts = [tell_count(len(tile.cards), "card"), f"{tile.memory_percent} % of the memory allocated"]
        parts.append(f"{tile.free} free")
    if tile.unhealthy:
        parts.append(f"{tile.unhealthy} unhealthy")
    if tile.cordoned:
        parts.append(f"{tile.cordoned} cordoned")
    if tile.closed:
        parts.append(f"{tile.closed} closed")
    if tile.problem:
        parts.append(tile.problem)
    return f"{tile.node}: {', '.join(parts)}"
