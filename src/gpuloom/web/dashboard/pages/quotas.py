"""What namespaces hold and may hold."""

from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.refusals import need_pods
from gpuloom.web.views.overview import list_quotas


async def make_quotas(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the quotas of the namespaces that may be seen."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    found = await api.pace.collect(list_quotas(api.source, asked.viewer, namespace))
    turning = turn(asked, len(found))
    rows = {f"q-{row.namespace}-{row.resource}": row for row in found[turning.rows]}
    drawn = draw_items("quotas", "row", rows)
    items = await api.pace.collect(drawn)
    return DashboardPage(
        title="Namespaces and quotas",
        here="/quotas",
        regions={
            "seek": draw("pods", "seek", "/quotas", namespace, asked.viewer),
            "quotas": Listing(
                head=draw("quotas", "head", len(found), namespace),
                items=dict(items),
                tail=draw("quotas", "tail", turning),
            ),
        },
    )
