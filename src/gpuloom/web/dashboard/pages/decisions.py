"""The decisions made last, and one of them as it was."""

from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.refusals import need_pods
from gpuloom.web.views.decisions import list_decisions, view_decision


async def make_decisions(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the last decisions, newest first."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    found = await api.pace.collect(list_decisions(api.source, asked.viewer, namespace))
    turning = turn(asked, len(found))
    rows = {f"d-{row.number}": row for row in found[turning.rows]}
    items = await api.pace.collect(draw_items("decisions", "row", rows))
    return DashboardPage(
        title="Recent decisions",
        here="/decisions",
        regions={
            "seek": draw("pods", "seek", "/decisions", namespace, asked.viewer),
            "decisions": Listing(
                head=draw("decisions", "head", len(found), namespace),
                items=dict(items),
                tail=draw("decisions", "tail", turning),
            ),
        },
    )


async def make_decision(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one decision as it was made."""
    text = asked.name("number")
    decision = view_decision(api.source, api.lookup.find_decision(text, asked.viewer))
    return DashboardPage(
        title=f"Decision {text}",
        here="/decisions",
        regions={
            "decision": draw("decisions", "decision", decision),
            "files": draw("pods", "files", decision.pod.namespace, decision.pod.name, asked.viewer),
            "why": draw("decisions", "why", decision),
        },
        is_live=False,
    )
