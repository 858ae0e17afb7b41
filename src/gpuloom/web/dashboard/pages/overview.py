"""The cluster in one look: sums, what needs attention, and every card."""

from collections.abc import Generator

from markupsafe import Markup

from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.drawing import draw
from gpuloom.web.dashboard.pages.choosing import choose_nodes
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.dashboard.tiles import draw_tile
from gpuloom.web.pacing import gather, sift
from gpuloom.web.refusals import need_nodes
from gpuloom.web.views.heat import list_tiles
from gpuloom.web.views.overview import view_overview
from gpuloom.web.views.source import Source

CROWD = 60
"""From so many nodes on the map shows them without names."""
CROWDED = "crowded"
"""Class of such a map."""
FEW = 12
"""Up to so many nodes it shows them large."""
_MOST_TROUBLED = 12


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
    choice, chosen = yield from choose_nodes(source, asked, tiles)
    size = _name_size(len(chosen))
    items = yield from gather((f"n-{tile.node}", draw_tile(tile, is_named=size != CROWDED)) for tile in chosen)
    head = draw("overview", "map_head", len(chosen), len(tiles), size)
    listing = Listing(head=head, items=dict(items), tail=Markup("</ul></section>"))
    yield
    seek = draw("overview", "seek", "/", choice, "")
    return DashboardPage(
        title="Overview", here="/", regions={"sums": sums, "trouble": trouble, "seek": seek, "map": listing}
    )


def _name_size(nodes: int) -> str:
    if nodes <= FEW:
        return "sparse"
    return CROWDED if nodes >= CROWD else ""
