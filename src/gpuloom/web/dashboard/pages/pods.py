"""Pods that wait, with reasons, and one pod explained."""

import msgspec

from gpuloom.engine.explanation.study import STANDARD, Depth
from gpuloom.web.api import Api, need_pods
from gpuloom.web.dashboard.asked import Asked, cut_rows, turn
from gpuloom.web.dashboard.drawing import draw, draw_item
from gpuloom.web.dashboard.regions import Listing, Page
from gpuloom.web.views.explaining import explain_pod
from gpuloom.web.views.pods import list_pending
from gpuloom.web.views.values import PendingView


async def make_pending(api: Api, asked: Asked) -> Page:
    """Show the pods that wait."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    found = await api.pace.collect(cut_rows(list_pending(api.source, asked.viewer, namespace), asked))
    rows, turning = turn(asked, found)
    return Page(
        title="Pending pods",
        here="/pending",
        regions={
            "seek": draw("pods", "seek", "/pending", namespace, asked.viewer),
            "pending": Listing(
                head=draw("pods", "pending_head", len(found)),
                # How long a pod waits is told by its age, which does not change with every look.
                items={f"p-{row.uid}": draw_item("pods", "pending_row", _without_clock(row)) for row in rows},
                tail=draw("pods", "pending_tail", turning, len(found)),
            ),
        },
    )


async def make_pod(api: Api, asked: Asked) -> Page:
    """Explain a pod as of now."""
    namespace, name = asked.name("namespace"), asked.name("pod")
    pod = await api.find_pod(namespace, name, asked.viewer)
    explanation = await api.pace.finish(explain_pod(api.source, asked.viewer, pod, read_depth(asked)))
    return Page(
        title=f"Pod {namespace}/{name}",
        here="/pending",
        regions={
            "verdict": draw("explanation", "verdict", explanation),
            "files": draw("pods", "files", namespace, name, asked.viewer),
            "summary": draw("explanation", "summary", explanation),
            "details": draw("explanation", "details", explanation, asked.path, asked.option("node")),
        },
    )


def _without_clock(row: PendingView) -> PendingView:
    return msgspec.structs.replace(row, waiting_s=min(row.waiting_s, 0.0))


def read_depth(asked: Asked) -> Depth:
    """Read which node is to be shown in detail, if one is named."""
    node = asked.option("node")
    return Depth(nodes=frozenset({node})) if node else STANDARD
