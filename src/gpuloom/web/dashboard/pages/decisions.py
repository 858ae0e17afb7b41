"""The decisions made last, and one of them as it was."""

from gpuloom.scheduler.filter.history import MOST_DECISIONS
from gpuloom.web.api import RefusedError, WebApi, need_pods
from gpuloom.web.dashboard.asked import Asked, cut_rows, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing
from gpuloom.web.views.decisions import list_decisions, view_decision


async def make_decisions(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the last decisions, newest first."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    decisions = list_decisions(api.source, asked.viewer, namespace, MOST_DECISIONS)
    found = await api.pace.collect(cut_rows(decisions, asked))
    rows, turning = turn(asked, found)
    items = await api.pace.collect(draw_items("decisions", "row", {f"d-{row.number}": row for row in rows}))
    return DashboardPage(
        title="Recent decisions",
        here="/decisions",
        regions={
            "seek": draw("pods", "seek", "/decisions", namespace, asked.viewer),
            "decisions": Listing(
                head=draw("decisions", "head", len(found)),
                items=dict(items),
                tail=draw("decisions", "tail", turning),
            ),
        },
    )


async def make_decision(api: WebApi, asked: Asked) -> DashboardPage:
    """Show one decision as it was made."""
    text = asked.name("number")
    decided = api.source.state.decisions.find(int(text)) if text.isdecimal() and len(text) < 19 else None
    if decided is None:
        raise RefusedError(404, f"decision {text} is not remembered: only the last ones are")
    need_pods(asked.viewer, decided.pod.namespace)
    decision = view_decision(decided)
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
