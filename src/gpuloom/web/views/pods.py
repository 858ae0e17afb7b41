"""Pods with cards, and pods that wait for some."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping

import msgspec

from gpuloom.engine.explanation.headline import tell_asks, tell_nowhere
from gpuloom.engine.explanation.hosts import tell_taking
from gpuloom.engine.explanation.limits import find_limits
from gpuloom.engine.explanation.summing import count_in_steps
from gpuloom.engine.explanation.values import HostVerdict, PodName, ReasonCount
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.pods.pending import (
    APART,
    BY_CARDS,
    TRY_AGAIN,
    cause_of,
    look_for_pending,
    read_last_words,
    tell_wait,
)
from gpuloom.web.views.hosts import find_unknown_in, judge_cards, judge_nodes, read_demand_of
from gpuloom.web.views.nominated import find_nomination, find_own_room
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.standing import list_given, standing_of, sum_usage
from gpuloom.web.views.used import use_of_pod
from gpuloom.web.views.values import PendingView, PodView
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import decode_time, encode_unix_time

_PODS_A_STEP = 100
_Answer = tuple[str, bool, tuple[ReasonCount, ...], HostVerdict]
"""Why a pod waits, whether it fits by now, the reasons, and what kube-scheduler's filters say."""


def list_pods(source: Source, viewer: Viewer, namespace: str = "") -> Iterator[PodView]:
    """Give the pods that have cards and may be seen, by namespace and name."""
    held = [
        one for one in source.state.cluster.ledger if viewer.sees(one.namespace) and namespace in {"", one.namespace}
    ]
    for one in sorted(held, key=lambda reservation: (reservation.namespace, reservation.name)):
        yield view_pod(source, viewer, one)


def view_pod(source: Source, viewer: Viewer, held: Reservation) -> PodView:
    """Return what a pod has."""
    usage = sum_usage(source, held)
    return PodView(
        pod=viewer.name(held.namespace, held.name),
        uid=held.uid,
        node=held.node,
        standing=standing_of(held),
        since=encode_unix_time(held.decided_at),
        shares=list_given(source, held),
        memory_mib=usage.memory_mib,
        cores=usage.cores,
        used=use_of_pod(source, held),
    )


def find_pending(source: Source) -> Generator[None, None, list[Pod]]:
    """Return the pods that ask for cards and hold none, those that wait longest first; found in steps."""
    waiting = []
    for number, pod in enumerate(look_for_pending(source.state)):
        if number % _PODS_A_STEP == 0:
            yield
        if pod is not None:
            waiting.append(pod)
    yield
    return sorted(waiting, key=lambda pod: (pod.metadata.creation_timestamp or "~", pod.full_name))


def pick_pending(pending: Iterable[Pod], viewer: Viewer, namespace: str = "") -> Iterator[Pod]:
    """Give those of the pending pods that may be seen."""
    return (pod for pod in pending if viewer.sees(pod.namespace) and namespace in {"", pod.namespace})


def list_pending(source: Source, viewer: Viewer, pending: Iterable[Pod]) -> Generator[None, None, list[PendingView]]:
    """Return what pods ask for and why they wait, in steps; every different question is asked once."""
    asked: dict[object, _Answer] = {}
    views = []
    for pod in pending:
        yield
        view = yield from _view_pending(source, pod, asked)
        nomination = find_nomination(source, viewer, pod.metadata.uid)
        views.append(msgspec.structs.replace(view, nomination=nomination) if nomination else view)
    return views


def _view_pending(source: Source, pod: Pod, asked: dict[object, _Answer]) -> Generator[None, None, PendingView]:
    created = pod.metadata.creation_timestamp or ""
    view = PendingView(
        pod=PodName(namespace=pod.namespace, name=pod.name),
        uid=pod.metadata.uid,
        created=created,
        waiting_s=_count_waiting_s(source, created),
        cause=cause_of(source.state, pod),
    )
    try:
        demands = source.state.settings.read_demands(pod)
    except PolicyError as error:
        return msgspec.structs.replace(view, headline=str(error))
    if not demands:
        told = "; ".join(one.text for one in find_unknown_in(source, pod))
        return msgspec.structs.replace(view, headline=told, host=HostVerdict(last_words=read_last_words(pod)))
    catalog = source.state.settings.catalog
    headrooms = {word: source.state.headroom(pod.namespace, catalog[word]) for word in demands}
    key: object = (
        read_demand_of(source, pod),
        # Who goes before a pod, and has its room kept, depends on these.
        (pod.priority, pod.metadata.uid if source.state.nominations.find(pod.metadata.uid) else ""),
        tuple(
            (
                tuple(container.request for container in demand.containers),
                demand.container_types,
                demand.selector,
                demand.preferences,
                headrooms[word],
            )
            for word, demand in demands.items()
        ),
    )
    if key not in asked:
        asked[key] = yield from _ask(source, pod, demands, headrooms)
    headline, fits, reasons, host = asked[key]
    words, hold = read_last_words(pod), source.tell_hold(pod)
    host = msgspec.structs.replace(host, last_words=words) if words else host
    if hold:
        headline, fits = f"{hold}; {APART} {headline}", False
    elif fits and host.not_looked_at:
        headline = f"{headline}, {BY_CARDS}"
    elif fits:
        # Where both say no, one no is enough.
        said = tell_wait(view.cause) or "kube-scheduler said last"
        headline = f"{headline} by now: {TRY_AGAIN}" + (f"; {said}: {words}" if words else "")
    asks = tuple(ask for word, demand in demands.items() for ask in tell_asks(demand, catalog[word]))
    return msgspec.structs.replace(view, asks=asks, headline=headline, fits=fits, reasons=reasons, host=host)


def _count_waiting_s(source: Source, created: str) -> float | None:
    try:
        since = decode_time(created)
    except WireError:
        return None
    return round(max((source.parts.clocks.now() - since).total_seconds(), 0.0), 1)


def _ask(
    source: Source, pod: Pod, demands: Demands, headrooms: Mapping[str, Headroom]
) -> Generator[None, None, _Answer]:
    hosts = yield from judge_nodes(source, pod)
    names = source.node_names()
    cards = yield from judge_cards(source, demands, headrooms)
    shortages = yield from hosts.find_shortages(source, cards.fitting)
    verdict = msgspec.structs.replace((yield from hosts.sum_up(source, cards.fitting, shortages)), last_words="")
    if not names:
        return "there are no nodes", False, (), verdict
    refusals = cards.refusals
    yield
    if cards.fitting:
        offered = [name for name in names if name not in hosts.refusals]
        if (room := find_own_room(source, pod, demands)) in offered:
            offered = [room]
        decision = source.pod_scheduler.decide(demands, offered, headrooms=headrooms)
        if decision.node is not None:
            return f"fits on {decision.node}", True, (), verdict
        refusals = decision.refusals
        yield
    reasons = yield from count_in_steps(refusals.values())
    told = [tell_taking(verdict), ", ".join(f"{count.nodes:,} {count.reason}" for count in reasons)]
    told = told if cards.fitting else told[::-1]
    told += hosts.tell_kept()
    told += [one.text for one in find_unknown_in(source, pod)] if hosts.demand is not None else []
    why = "; ".join(filter(None, told))
    nowhere = tell_nowhere(len(names))
    if not cards.fitting:
        nowhere = "; it ".join([nowhere, *_find_limits(source, demands, hosts.refusals)])
    return f"{nowhere}: {why}", False, reasons, verdict


def _find_limits(source: Source, demands: Demands, barred: Collection[str]) -> Iterator[str]:
    by_vendor = source.pod_scheduler.by_vendor
    return (told for word, demand in demands.items() for told in find_limits(by_vendor[word], demand, barred))
