"""The cluster in one look: sums, what needs attention, and every card."""

from collections.abc import Callable, Generator, Iterable

from markupsafe import Markup

from gpuloom.web.api import WebApi, need_nodes
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.drawing import draw
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.dashboard.tiles import draw_tile
from gpuloom.web.pages import gather, sift
from gpuloom.web.views.heat import Tile, list_tiles
from gpuloom.web.views.overview import view_overview
from gpuloom.web.views.source import Source

CROWD = 60
"""From so many nodes on the map shows them without names."""
_MOST_TROUBLED = 12
_KINDS: dict[str, Callable[[Tile], bool]] = {
    "free": lambda tile: tile.free > 0,
    "trouble": lambda tile: tile.needs_attention,
}


async def make_overview(api: WebApi, asked: Asked) -> DashboardPage:
    """Show sums, trouble and the map of all cards."""
    need_nodes(asked.viewer)
    return await api.pace.finish(_draw(api.source, asked))


def _draw(source: Source, asked: Asked) -> Generator[None, None, DashboardPage]:
    tiles = yield from list_tiles(source)
    overview = yield from view_overview(source)
    yield
    sums = draw("overview", "sums", overview)
    yield
    troubled = yield from sift(tiles, lambda tile: tile.needs_attention)
    trouble = draw("overview", "trouble", troubled[:_MOST_TROUBLED], len(troubled))
    yield
    text, show = asked.option("q"), asked.option("show")
    chosen = yield from choose_tiles(tiles, text, show)
    items = yield from gather((f"n-{tile.node}", draw_tile(tile)) for tile in chosen)
    head = draw("overview", "map_head", len(chosen), len(tiles), len(chosen) >= CROWD)
    listing = Listing(head=head, items=dict(items), tail=Markup("</ul></section>"))
    yield
    seek = draw("overview", "seek", "/", text, show)
    return DashboardPage(
        title="Overview", here="/", regions={"sums": sums, "trouble": trouble, "seek": seek, "map": listing}
    )


def choose_tiles(tiles: Iterable[Tile], text: str, show: str) -> Generator[None, None, list[Tile]]:
    """Return the nodes with a text in their names that are of a kind: ``free``, ``trouble``, or any."""
    return sift(tiles, lambda tile: text in tile.node and _KINDS.get(show, _is_any)(tile))


def _is_any(_: Tile) -> bool:
    return True
