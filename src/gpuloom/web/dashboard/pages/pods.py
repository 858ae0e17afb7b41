"""Pods that wait, with reasons, and one pod explained."""

from collections.abc import Generator, Iterator

import msgspec

from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.values import Explanation, Outcome
from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.drawing import draw, draw_items
from gpuloom.web.dashboard.regions import DashboardPage, Listing, Region
from gpuloom.web.pacing import gather
from gpuloom.web.refusals import need_pods
from gpuloom.web.views.cards import name_cards
from gpuloom.web.views.explaining import explain_pod
from gpuloom.web.views.nominated import find_nomination
from gpuloom.web.views.pods import find_pending, list_pending, pick_pending
from gpuloom.web.views.source import Source
from gpuloom.web.views.used import use_of_pod
from gpuloom.web.views.values import NominationView, PendingView

_NOT_WAITING: frozenset[Outcome] = frozenset({"bound", "reserved", "ended", "foreign"})


async def make_pending(api: WebApi, asked: Asked) -> DashboardPage:
    """Show the pods that wait."""
    namespace = asked.option("namespace")
    if namespace:
        need_pods(asked.viewer, namespace)
    waiting = await api.pace.finish(find_pending(api.source))
    pending = await api.pace.collect(pick_pending(waiting, asked.viewer, namespace))
    turning = turn(asked, len(pending))
    rows = await api.pace.finish(list_pending(api.source, asked.viewer, pending[turning.rows]))
    # How long a pod waits is told by its age, which does not change with every look.
    drawn = draw_items("pods", "pending_row", {f"p-{row.uid}": _without_clock(row) for row in rows})
    items = await api.pace.collect(drawn)
    return DashboardPage(
        title="Pending pods",
        here="/pending",
        regions={
            "seek": draw("pods", "seek", "/pending", namespace, asked.viewer),
            "pending": Listing(
                head=draw("pods", "pending_head", len(pending)),
                items=dict(items),
                tail=draw("pods", "pending_tail", turning, len(pending), namespace),
            ),
        },
    )


async def make_pod(api: WebApi, asked: Asked) -> DashboardPage:
    """Explain a pod as of now."""
    namespace, name, node = asked.name("namespace"), asked.name("pod"), asked.option("node")
    pod = await api.lookup.find_pod(namespace, name, asked.viewer)
    explanation = await api.pace.finish(explain_pod(api.source, asked.viewer, pod, read_depth(asked)))
    nomination = find_nomination(api.source, asked.viewer, pod.metadata.uid)
    held = api.source.state.cluster.ledger.find(pod.metadata.uid)
    regions = dict(await api.pace.collect(_draw_pod(api.source, explanation, nomination, asked)))
    used = use_of_pod(api.source, held) if held is not None else None
    regions["use"] = draw("pods", "use", held is not None, used, api.source.book.why_not)
    regions["which"] = draw("explanation", "which", explanation, asked.path, node)
    regions["details"] = await api.pace.finish(draw_details(explanation, node))
    here = "/pods" if explanation.outcome in _NOT_WAITING else "/pending"
    return DashboardPage(title=f"Pod {namespace}/{name}", here=here, regions=regions)


def draw_details(explanation: Explanation, wanted: str = "") -> Generator[None, None, Listing]:
    """Draw the cards of nodes: of the ``wanted`` one, or of those that are told of anyway."""
    held = explanation.held
    nodes = {
        f"n-{node.name}": (node, "would be chosen" if held is None else "held" if node.name == held.node else "")
        for node in explanation.nodes
    }
    items = yield from gather(draw_items("explanation", "one_node", nodes))
    return Listing(
        head=draw("explanation", "details_head", explanation, wanted),
        items=dict(items),
        tail=draw("explanation", "details_tail"),
    )


def _draw_pod(
    source: Source, explanation: Explanation, nomination: NominationView | None, asked: Asked
) -> Iterator[tuple[str, Region]]:
    yield "verdict", draw("explanation", "verdict", explanation)
    kept = name_cards(source, nomination.node) if nomination else {}
    yield "nominations", draw("nominations", "region", (nomination,) if nomination else (), kept)
    yield "files", draw("pods", "files", asked.name("namespace"), asked.name("pod"), asked.viewer)
    places = name_cards(source, explanation.held.node) if explanation.held is not None else {}
    yield "summary", draw("explanation", "summary", explanation, places)


def _without_clock(row: PendingView) -> PendingView:
    return msgspec.structs.replace(row, waiting_s=None)


def read_depth(asked: Asked) -> Depth:
    """Read which node is to be shown in detail, if one is named."""
    node = asked.option("node")
    return Depth(nodes=frozenset({node})) if node else STANDARD
