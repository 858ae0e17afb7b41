"""All pods that have cards: searched, filtered, sorted."""

from collections.abc import Callable, Generator
from typing import Any

from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.uuids import card_id
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.dashboard.sorting import Sorting, read_sorting, take_first
from gpuloom.web.refusals import need_pods
from gpuloom.web.views.pods import view_pod
from gpuloom.web.views.source import Source
from gpuloom.web.views.standing import standing_of, sum_usage

FILTERS = ("q", "namespace", "node", "standing")
_COLUMNS = {"name": False, "node": False, "state": False, "cards": True, "memory": True, "cores": True, "since": True}
_PODS_A_STEP = 200


async def make_pods(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the pods that have cards and may be seen."""
    if namespace := asked.option("namespace"):
        need_pods(asked.viewer, namespace)
    sorting = read_sorting(asked, _COLUMNS)
    chosen = await api.pace.finish(_choose(api.source, asked))
    turning = turn(asked, len(chosen))
    ranked = take_first(chosen, turning.rows.stop, _rank(api.source, sorting), is_reversed=sorting.is_reversed)
    shown = (await api.pace.finish(ranked))[turning.rows]
    rows = await api.pace.collect(view_pod(api.source, asked.viewer, one) for one in shown)
    items = await api.pace.collect(draw_items("holding", "row", {f"p-{row.uid}": row for row in rows}))
    wanted = {name: asked.option(name) for name in FILTERS}
    return DashboardPage(
        title="Pods",
        here="/pods",
        regions={
            "seek": draw("holding", "seek", wanted, asked.option("sort"), asked.viewer),
            "pods": Listing(
                head=draw("holding", "head", len(chosen), sorting),
                items=dict(items),
                tail=draw("holding", "tail", turning, api.source.book.why_not),
            ),
        },
    )


def _choose(source: Source, asked: Asked) -> Generator[None, None, list[Reservation]]:
    """Return the pods that are like what is asked for, by namespace and name."""
    text, namespace, node, standing = (asked.option(name) for name in FILTERS)
    found = []
    for number, held in enumerate(list(source.state.cluster.ledger)):
        if number % _PODS_A_STEP == 0:
            yield
        if (
            asked.viewer.sees(held.namespace)
            and namespace in {"", held.namespace}
            and node in held.node
            and text in held.full_name
            and standing in {"", standing_of(held)}
        ):
            found.append(held)
    return found


def _rank(source: Source, sorting: Sorting) -> Callable[[Reservation], Any]:
    """Return by what pods are sorted; those that are alike come in the order of their names."""
    columns: dict[str, Callable[[Reservation], Any]] = {
        "name": lambda held: held.full_name,
        "node": lambda held: held.node,
        "state": standing_of,
        "cards": lambda held: len({card_id(share.uuid) for share, _ in held.each_share()}),
        "memory": lambda held: sum_usage(source, held).memory_mib,
        "cores": lambda held: sum_usage(source, held).cores,
        "since": lambda held: held.decided_at,
    }
    of_column = columns[sorting.key]
    return lambda held: (of_column(held), held.full_name)
