"""The cluster in one look: sums, what needs attention, and every card."""

from collections.abc import Iterable

from markupsafe import Markup

from gpuloom.web.api import Api, need_nodes
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.drawing import draw
from gpuloom.web.dashboard.regions import Listing, Page
from gpuloom.web.dashboard.tiles import draw_tile
from gpuloom.web.views.heat import Tile, list_tiles
from gpuloom.web.views.overview import view_overview

CROWD = 60
"""From so many nodes on the map shows them without names."""
_MOST_TROUBLED = 12


async def make_overview(api: Api, asked: Asked) -> Page:
    """Show sums, trouble and the map of all cards."""
    need_nodes(asked.viewer)
    tiles = await api.pace.finish(list_tiles(api.source))
    await api.pace.rest()
    sums = draw("overview", "sums", view_overview(api.source))
    await api.pace.rest()
    troubled = [tile for tile in tiles if tile.needs_attention]
    chosen = choose_tiles(tiles, asked.option("q"), asked.option("show"))
    items = await api.pace.collect((f"n-{tile.node}", draw_tile(tile)) for tile in chosen)
    return Page(
        title="Overview",
        here="/",
        regions={
            "sums": sums,
            "trouble": draw("overview", "trouble", troubled[:_MOST_TROUBLED], len(troubled)),
            "seek": draw("overview", "seek", "/", asked.option("q"), asked.option("show")),
            "map": Listing(
                head=draw("overview", "map_head", len(chosen), len(tiles), len(chosen) >= CROWD),
                items=dict(items),
                tail=Markup("</ul></section>"),
            ),
        },
    )


def choose_tiles(tiles: Iterable[Tile], text: str, show: str) -> list[Tile]:
    """Return the nodes with a text in their names that are of a kind: ``free``, ``trouble``, or any."""
    return [
        tile
        for tile in tiles
        if text in tile.node and (show != "free" or tile.free) and (show != "trouble" or tile.needs_attention)
    ]
