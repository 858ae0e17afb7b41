"""The boxes of the map. There are thousands of them, so they are written without a template."""

from functools import lru_cache
from urllib.parse import quote

from markupsafe import Markup, escape

from gpuloom.web.dashboard.drawing import tell_count
from gpuloom.web.views.heat import Tile

_MOST_REMEMBERED = 16_384
_NO_CARDS = '<i class="kn"></i>'


@lru_cache(maxsize=_MOST_REMEMBERED)
def draw_tile(tile: Tile) -> Markup:
    """Draw a node with a box for each card; what was drawn before is not drawn again."""
    name, words = escape(tile.node), escape(describe(tile))
    barred = ' class="barred"' if tile.problem else ""
    cells = "".join(f'<i class="k{letter}"></i>' for letter in tile.cards) or _NO_CARDS
    link = f'<a href="/nodes/{quote(tile.node, safe="")}" title="{words}" aria-label="{words}"{barred}>'
    text = f'<li id="n-{name}">{link}<b>{name}</b><span class="cells">{cells}</span></a></li>\n'
    return Markup(text)  # noqa: S704 - what comes from the cluster was escaped above; letters are our own


def describe(tile: Tile) -> str:
    """Say what the boxes show."""
    parts = []
    if tile.cards:
        parts = [tell_count(len(tile.cards), "card"), f"{tile.memory_percent} % of the memory given away"]
        parts.append(f"{tile.free} free")
    if tile.unhealthy:
        parts.append(f"{tile.unhealthy} unhealthy")
    if tile.cordoned:
        parts.append(f"{tile.cordoned} cordoned")
    if tile.problem:
        parts.append(tile.problem)
    return f"{tile.node}: {', '.join(parts)}"
