"""Pods for which room is being made: where, since when, and who is to leave for them."""

from collections.abc import Iterator

from gpuloom.engine.explanation.values import PodName
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.nominations import Nomination
from gpuloom.model.uuids import card_id
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.values import NominationView
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_unix_time

_MOST_NAMES = 10


def list_nominations(source: Source, viewer: Viewer, namespace: str = "") -> Iterator[NominationView]:
    """Give those of pods that may be seen, the most important first."""
    for one in source.state.nominations:
        if viewer.sees(one.namespace) and namespace in {"", one.namespace}:
            yield view_nomination(source, viewer, one)


def list_on_node(source: Source, viewer: Viewer, node: str) -> Iterator[NominationView]:
    """Give those for a node; pods that may not be seen have no names."""
    return (view_nomination(source, viewer, one) for one in source.state.nominations if one.node == node)


def find_nomination(source: Source, viewer: Viewer, uid: str) -> NominationView | None:
    """Return that of a pod, by its UID."""
    found = source.state.nominations.find(uid)
    return view_nomination(source, viewer, found) if found is not None else None


def find_own_room(source: Source, pod: Pod, demands: Demands) -> str:
    """Return the node on which a waiting pod has its room by now, empty while it has none; Filter gives it no other."""
    nomination = source.state.nominations.find(pod.metadata.uid)
    if nomination is None or source.state.cluster.ledger.find(nomination.uid) is not None:
        return ""
    return nomination.node if source.decider.takes(demands, nomination.node, pod.priority) else ""


def view_nomination(source: Source, viewer: Viewer, nomination: Nomination) -> NominationView:
    """Show a nomination; its cards are those that it would get by what is known now."""
    imagined = source.decider.imagine(nomination)
    shares = imagined.each_share() if imagined is not None else ()
    return NominationView(
        pod=viewer.name(nomination.namespace, nomination.name),
        node=nomination.node,
        cards=tuple(sorted({card_id(share.uuid) for share, is_held in shares if is_held})),
        priority=nomination.priority,
        since=encode_unix_time(nomination.since),
        waits_for=tuple(_find_awaited(source, viewer, nomination)),
    )


def _find_awaited(source: Source, viewer: Viewer, nomination: Nomination) -> Iterator[PodName]:
    for held in source.holders(nomination.node):
        if held.uid in nomination.victims or source.state.shown.is_terminating(held.uid):
            yield viewer.name(held.namespace, held.name)


def tell_nomination(view: NominationView) -> str:
    """Say of a waiting pod in one line that room is being made for it, or that it is lost."""
    if not view.has_room:
        return f"the room made for it on {view.node} is lost: a more important pod has it, or the cards changed"
    told = f"room is being made for it on {view.node}"
    if not view.waits_for:
        return told
    names = ", ".join(name.full_name for name in view.waits_for[:_MOST_NAMES])
    more = f" and {len(view.waits_for) - _MOST_NAMES} more" if len(view.waits_for) > _MOST_NAMES else ""
    return f"{told}: it waits until these have left: {names}{more}"


def tell_eviction(source: Source, viewer: Viewer, pod: Pod) -> tuple[str, ...]:
    """Say for whom a pod with cards is being evicted, if it is."""
    return tuple(
        f"evicted to make room on {one.node} for {viewer.name(one.namespace, one.name).full_name}, "
        f"of priority {one.priority}"
        for one in source.state.nominations
        if pod.metadata.uid in one.victims
    )
