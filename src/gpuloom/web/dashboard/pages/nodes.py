"""Nodes, one node, one card: what there is, who is on it, since when, how much."""

from gpuloom.web.api import RefusedError, WebApi, need_nodes
from gpuloom.web.dashboard.asked import Asked, cut_rows, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.pages.overview import choose_tiles
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.views.cards import detail_node, find_card, view_node
from gpuloom.web.views.heat import list_tiles


async def make_nodes(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the nodes as a table."""
    need_nodes(asked.viewer)
    text, show = asked.option("q"), asked.option("show")
    tiles = await api.pace.finish(list_tiles(api.source))
    chosen = await api.pace.finish(choose_tiles(tiles, text, show))
    names = (tile.node for tile in cut_rows(chosen, asked))
    views = await api.pace.collect(view_node(api.source, asked.viewer, name) for name in names)
    rows, turning = turn(asked, views)
    items = await api.pace.collect(draw_items("nodes", "row", {f"n-{node.name}": node for node in rows}))
    return DashboardPage(
        title="Nodes",
        here="/nodes",
        regions={
            "seek": draw("overview", "seek", "/nodes", text, show),
            "nodes": Listing(
                head=draw("nodes", "head", len(chosen)),
                items=dict(items),
                tail=draw("nodes", "tail", turning),
            ),
        },
    )


async def make_node(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one node and its cards."""
    need_nodes(asked.viewer)
    name = asked.name("node")
    if name not in api.source.state.nodes and not api.source.state.cluster.has(name):
        raise RefusedError(404, f"there is no node {name}")
    detail = detail_node(api.source, asked.viewer, name)
    items = await api.pace.collect(draw_items("nodes", "card_row", {f"c-{card.uuid}": card for card in detail.cards}))
    return DashboardPage(
        title=f"Node {name}",
        here="/nodes",
        regions={
            "node": draw("nodes", "node", detail.node),
            "nominations": draw("nominations", "region", detail.nominations),
            "cards": Listing(
                head=draw("nodes", "cards_head", len(detail.cards)),
                items=dict(items),
                tail=draw("nodes", "cards_tail"),
            ),
        },
    )


async def make_card(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one card and who is on it."""
    need_nodes(asked.viewer)
    uuid = asked.name("uuid")
    card = find_card(api.source, asked.viewer, uuid)
    if card is None:
        raise RefusedError(404, f"no node has a card {uuid}")
    regions = {"card": draw("nodes", "card", card), "holders": draw("nodes", "holders", card)}
    return DashboardPage(title=f"Card {uuid}", here="/nodes", regions=regions)
