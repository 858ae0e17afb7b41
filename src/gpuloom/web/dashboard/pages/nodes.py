"""Nodes, one node, one card: what there is, who is on it, since when, how much."""

from collections.abc import Generator

from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.pages.choosing import choose_nodes
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.dashboard.sorting import Sorting, read_sorting, take_first
from gpuloom.web.refusals import need_nodes
from gpuloom.web.views.cards import name_cards, view_node
from gpuloom.web.views.heat import Tile, list_tiles
from gpuloom.web.views.source import Source
from gpuloom.web.views.values import CardView

_COLUMNS = {"name": False, "cards": True, "memory": True, "cores": True, "shares": True, "pods": True}

_STRANDED = {"stranded": True}
"""The column that there is where it is known which pods are to come."""


async def make_nodes(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the nodes as a table."""
    need_nodes(asked.viewer)
    is_known = api.source.stranded.total is not None
    sorting = read_sorting(asked, _COLUMNS | _STRANDED if is_known else _COLUMNS)
    tiles = await api.pace.finish(list_tiles(api.source))
    choice, chosen = await api.pace.finish(choose_nodes(api.source, asked, tiles))
    turning = turn(asked, len(chosen))
    shown = (await api.pace.finish(_take_first(api.source, turning.rows.stop, sorting, chosen)))[turning.rows]
    rows = await api.pace.collect(view_node(api.source, asked.viewer, one.node, with_hour=True) for one in shown)
    macro = "row_with_stranded" if is_known else "row"
    items = await api.pace.collect(draw_items("nodes", macro, {f"n-{node.name}": node for node in rows}))
    return DashboardPage(
        title="Nodes",
        here="/nodes",
        regions={
            "seek": draw("overview", "seek", "/nodes", choice, asked.option("sort")),
            "find": draw("nodes", "find"),
            "nodes": Listing(
                head=draw("nodes", "head", len(chosen), sorting, is_known),
                items=dict(items),
                tail=draw("nodes", "tail", turning, api.source.book.why_not),
            ),
        },
    )


def _take_first(source: Source, count: int, sorting: Sorting, tiles: list[Tile]) -> Generator[None, None, list[Tile]]:
    """Return the nodes that come first; those that are alike by their names."""

    def rank(tile: Tile) -> object:
        if sorting.key == "name":
            return tile.node
        if sorting.key == "pods":
            return sum(1 for _ in source.holders(tile.node))
        if sorting.key == "stranded":
            found = source.stranded.node(tile.node)
            return found.stranded if found else 0.0
        return len(tile.cards) if sorting.key == "cards" else getattr(tile, f"{sorting.key}_percent")

    return (yield from take_first(tiles, count, rank, is_reversed=sorting.is_reversed))


async def make_node(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one node and its cards."""
    name = asked.name("node")
    detail = api.lookup.find_node(name, asked.viewer)
    items = await api.pace.collect(draw_items("nodes", "card_row", {f"c-{card.uuid}": card for card in detail.cards}))
    return DashboardPage(
        title=f"Node {name}",
        here="/nodes",
        regions={
            "node": draw("nodes", "node", detail.node, api.source.book.why_not),
            "nominations": draw("nominations", "region", detail.nominations, name_cards(api.source, name)),
            "cards": Listing(
                head=draw("nodes", "cards_head", len(detail.cards)),
                items=dict(items),
                tail=draw("nodes", "cards_tail"),
            ),
        },
    )


async def make_card(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one card and who is on it."""
    return _show_card(api, await api.lookup.find_card(asked.name("uuid"), asked.viewer))


async def make_card_at(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the card with an index of a node."""
    return _show_card(api, api.lookup.find_card_at(asked.name("node"), asked.name("index"), asked.viewer))


def _show_card(api: WebApi, card: CardView) -> DashboardPage:
    regions = {"card": draw("nodes", "card", card, api.source.book.why_not), "holders": draw("nodes", "holders", card)}
    return DashboardPage(title=f"Card {card.uuid}", here="/nodes", regions=regions)
