"""What namespaces hold and may hold."""

from gpuloom.web.api import WebApi, need_pods
from gpuloom.web.dashboard.asked import Asked, cut_rows, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.views.overview import list_quotas


async def make_quotas(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the quotas of the namespaces that may be seen."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    found = await api.pace.collect(cut_rows(list_quotas(api.source, asked.viewer, namespace), asked))
    rows, turning = turn(asked, found)
    drawn = draw_items("quotas", "row", {f"q-{row.namespace}-{row.resource}": row for row in rows})
    items = await api.pace.collect(drawn)
    return DashboardPage(
        title="Namespaces and quotas",
        here="/quotas",
        regions={
            "seek": draw("pods", "seek", "/quotas", namespace, asked.viewer),
            "quotas": Listing(
                head=draw("quotas", "head", len(found)),
                items=dict(items),
                tail=draw("quotas", "tail", turning),
            ),
        },
    )
