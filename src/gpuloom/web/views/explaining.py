"""Explanations of pods that are there, and of pods that could be."""

from collections.abc import Collection, Generator
from itertools import chain
from typing import Any

import msgspec

from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.hosts import sum_up_hosts, tell_nodes, tell_one_of
from gpuloom.engine.explanation.summing import count_reasons
from gpuloom.engine.explanation.text import tell_briefly
from gpuloom.engine.explanation.values import Explanation, HostVerdict
from gpuloom.engine.planning.capacity import count_capacity
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.foreign_pods import find_vendors_held, is_foreign
from gpuloom.scheduler.admission.offers import ClusterOffers
from gpuloom.scheduler.admission.patch import apply_patch
from gpuloom.scheduler.admission.review import Known, add_warnings, review_pod
from gpuloom.scheduler.pods.pending import APART, BY_CARDS, REFUSED_BEFORE, TRY_AGAIN, UNASKED, cause_of
from gpuloom.web.views.ended import tell_end
from gpuloom.web.views.host_remedies import find_host_remedies
from gpuloom.web.views.hosts import (
    KEPT,
    CardsApart,
    Hosts,
    find_barred,
    find_unknown_in,
    judge_cards,
    judge_hosts,
    judge_nodes,
    tell_kept,
)
from gpuloom.web.views.nominated import find_nomination, find_own_room, tell_eviction, tell_nomination
from gpuloom.web.views.preempting import VictimFacts, plan_on, tell_victims
from gpuloom.web.views.redaction import redact
from gpuloom.web.views.refusing import tell_misspelt, tell_unusable
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.values import Fits, NodeRoom
from gpuloom.wire.admission import Review, Verdict
from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Pod

Explaining = Generator[None, None, Explanation]

OFF = "preemption is switched off (--preemption)"
NOT_YET = "that is decided when it is refused next"
ELSEWHERE = "the pod has its room on another node"
_MOST_ROOMS = 20
_IMAGINED_UID = "gpuloom-imagined"


class PodError(ValueError):
    """A pod that cannot be read; the message says what is wrong with it."""


class UnknownNodeError(ValueError):
    """A node that is to be told of in detail and that there is not."""


def check_nodes(source: Source, depth: Depth) -> None:
    """Refuse to tell of nodes that there are not.

    Raises UnknownNodeError.
    """
    if missing := sorted(depth.nodes - set(source.node_names())):
        raise UnknownNodeError(f"there is no node {' and no node '.join(missing)}")


def find_pod(source: Source, namespace: str, name: str) -> Pod | None:
    """Return a pod that asks for cards, seems to mean some, or holds some."""
    state = source.state
    known = chain(
        state.shown.pods.values(),
        (refused.pod for refused in state.waiting.unschedulable.values()),
        state.shown.mistyped,
    )
    return next((pod for pod in known if (pod.namespace, pod.name) == (namespace, name)), None)


def explain_pod(
    source: Source, viewer: Viewer, pod: Pod, depth: Depth = STANDARD, *, offered: frozenset[str] | None = None
) -> Explaining:
    """Explain a pod as of now; other namespaces' pods that may not be seen appear without names.

    ``offered`` are the nodes that kube-scheduler offers; otherwise those count that take the pod by what its filters
    check, and that it offered at its last try.
    """
    if ended := tell_end(pod):
        name = viewer.name(pod.namespace, pod.name)
        return _say_why(Explanation(pod=name, outcome="ended", headline=ended))
    has_its_node = source.state.cluster.ledger.find(pod.metadata.uid) is not None
    # To a pod that has its node it is all one for whom room is kept on others.
    judge = judge_hosts if has_its_node else judge_nodes
    hosts = None if offered is not None else (yield from judge(source, pod))
    explanation = yield from _explain(source, viewer, pod, depth, hosts, offered)
    if explanation.host is not None and explanation.host.taking and cause_of(source.state, pod) == "node":
        explanation = msgspec.structs.replace(explanation, notes=(*explanation.notes, REFUSED_BEFORE))
    if hosts is None or has_its_node:
        return _say_why(explanation)
    return _conclude(source, pod, _tell_waiting(source, pod, explanation, hosts), hosts)


def _conclude(source: Source, pod: Pod, explanation: Explanation, hosts: Hosts) -> Explanation:
    tells_all = hosts.demand is not None or explanation.outcome == "asks for no card"
    if tells_all and not pod.spec.node_name:
        notes = (*(one.full_text for one in find_unknown_in(source, pod)), *explanation.notes)
        explanation = msgspec.structs.replace(explanation, notes=notes)
    return _say_why(_hold_back(source, pod, explanation))


def _say_why(explanation: Explanation) -> Explanation:
    return msgspec.structs.replace(explanation, why=" ".join(tell_briefly(explanation)))


def _hold_back(source: Source, pod: Pod, explanation: Explanation) -> Explanation:
    """Say of a pod that nobody tries to place that it waits for that, whatever is free."""
    hold = source.tell_hold(pod) if explanation.outcome in {"fits", "does not fit"} else ""
    if not hold:
        return explanation
    headline = f"{hold}; {APART} {explanation.headline}"
    return msgspec.structs.replace(explanation, outcome="held back", headline=headline)


def _tell_waiting(source: Source, pod: Pod, explanation: Explanation, hosts: Hosts) -> Explanation:
    """Say of a pod that fits that it waits all the same, until it is tried; what holds it back is told otherwise."""
    if explanation.outcome != "fits" or pod.spec.node_name or source.tell_hold(pod):
        return explanation
    is_unseen = cause_of(source.state, pod) == "unseen"
    untried = is_unseen and source.state.decisions.last_of(pod.metadata.uid) is None
    if hosts.demand is None:
        told = f"waits; {BY_CARDS} it"
    else:
        told = f"waits: {UNASKED}; it" if untried else f"still waits: {TRY_AGAIN}; by now it"
    return msgspec.structs.replace(explanation, headline=f"{told} {explanation.headline}")


def _explain(
    source: Source, viewer: Viewer, pod: Pod, depth: Depth, hosts: Hosts | None, offered: frozenset[str] | None = None
) -> Explaining:
    """Explain a pod; ``hosts`` is what kube-scheduler's filters say, None where nobody asks them."""
    if not source.state.settings.asks_for_cards(pod):
        return _explain_without_cards(source, viewer, pod, hosts)
    if is_foreign(pod) and source.state.cluster.ledger.find(pod.metadata.uid) is None:
        return _explain_foreign(source, viewer, pod)
    try:
        demands = source.state.settings.read_demands(pod)
    except PolicyError as error:
        return Explanation(
            pod=viewer.name(pod.namespace, pod.name), outcome="cannot be read", headline=f"cannot be placed: {error}"
        )
    barred = find_barred(source, pod, hosts, offered)
    kept = _find_kept(source, pod, demands, barred) if hosts is None else ()
    barred |= dict.fromkeys(kept, KEPT)
    if (room := find_own_room(source, pod, demands)) and room not in barred:
        barred |= {name: ELSEWHERE for name in source.node_names() if name not in barred and name != room}
    hopeless = source.state.nominations.nodes_kept_from(pod.metadata.uid, pod.priority)
    scope = ExplanationScope(
        source.node_names(), barred, source.parts.nodes.explain_missing_cards, pod=pod, hopeless=hopeless
    )
    explanation = yield from explain(source.pod_scheduler, demands, scope, depth)
    if hosts is not None and explanation.held is None:
        cards = yield from judge_cards(source, demands)
        explanation = yield from _add_hosts(source, pod, explanation, hosts, cards, depth)
    notes = tell_kept(kept) if hosts is None else hosts.tell_kept() if explanation.held is None else ()
    explanation = msgspec.structs.replace(explanation, notes=(*explanation.notes, *notes))
    if explanation.outcome == "does not fit" and depth.remedies:
        notes = yield from _tell_preemption(source, viewer, pod, hosts, offered)
        explanation = msgspec.structs.replace(explanation, notes=(*explanation.notes, *notes))
    if notes := tell_eviction(source, viewer, pod):
        explanation = msgspec.structs.replace(explanation, notes=(*explanation.notes, *notes))
    return redact(explanation, viewer.sees)


def _explain_without_cards(source: Source, viewer: Viewer, pod: Pod, hosts: Hosts | None) -> Explanation:
    """Say what nodes say to a pod that asks for no card and is on none: all that is known of it."""
    headline, host = "asks for no card: kube-scheduler places it alone", None
    if hosts is not None and not pod.spec.node_name:
        said = hosts.not_looked_at
        if hosts.demand is not None:
            said = tell_nodes(sum_up_hosts(source.node_names(), hosts.refusals))
        headline = f"{headline}; {said}"
        host = HostVerdict(last_words=hosts.last_words) if hosts.last_words else None
    name = viewer.name(pod.namespace, pod.name)
    return Explanation(pod=name, outcome="asks for no card", headline=headline, host=host)


def _add_hosts(
    source: Source, pod: Pod, explanation: Explanation, hosts: Hosts, cards: CardsApart, depth: Depth
) -> Explaining:
    """Say what kube-scheduler's filters say of the nodes whose cards would do.

    Where no node's would, all nodes' cards say why, those of nodes too that kube-scheduler does not offer.
    """
    shortages = yield from hosts.find_shortages(source, cards.fitting)
    verdict = yield from hosts.sum_up(source, cards.fitting, shortages)
    if not verdict.with_cards:
        return msgspec.structs.replace(explanation, host=verdict, reasons=count_reasons(cards.refusals.values()))
    if explanation.fitting:
        return msgspec.structs.replace(explanation, host=verdict)
    if verdict.taking:
        names = [name for name in cards.fitting if name not in hosts.refusals]
        note = f"would fit on {tell_one_of(min(names), len(names))} by now, not offered at the last try: {TRY_AGAIN}"
        return msgspec.structs.replace(explanation, host=verdict, notes=(note, *explanation.notes))
    remedies = (yield from find_host_remedies(source, pod, hosts, cards, shortages)) if depth.remedies else ()
    return msgspec.structs.replace(
        explanation,
        host=verdict,
        remedies=(*remedies, *explanation.remedies),
    )


def _tell_preemption(
    source: Source, viewer: Viewer, pod: Pod, hosts: Hosts | None, offered: frozenset[str] | None
) -> Generator[None, None, tuple[str, ...]]:
    """Say who of lower priority would have to leave, or that they are leaving."""
    state = source.state
    if nomination := find_nomination(source, viewer, pod.metadata.uid):
        return (tell_nomination(nomination),)
    alone = None if hosts is None else hosts.without_kept()
    prospect = yield from plan_on(source, pod, find_barred(source, pod, alone, offered), VictimFacts())
    plan = prospect.plan or prospect.later
    if plan is None or not plan.victims:
        return ()
    why_not = OFF if state.settings.preemption == "off" else prospect.why or NOT_YET
    return (tell_victims(viewer, pod, plan, why_not),)


def _explain_foreign(source: Source, viewer: Viewer, pod: Pod) -> Explanation:
    """Say of a pod on a node on which no scheduler of ours placed it what that means and what to do."""
    node, settings = pod.spec.node_name, source.state.settings
    held = find_vendors_held(pod, settings.catalog)
    closed = f", and all {' and '.join(held)} cards of the node are closed to new pods until it is gone" if held else ""
    remedy = (
        f"delete it and create it again without spec.nodeName, with schedulerName {settings.scheduler_name} or none, "
        "and without the label hami.io/webhook=ignore on it or its namespace"
    )
    return Explanation(
        pod=viewer.name(pod.namespace, pod.name),
        outcome="foreign",
        headline=f"came to node {node} past the scheduler: nobody gave it cards there{closed}",
        notes=(remedy,),
    )


def _find_kept(source: Source, pod: Pod, demands: Demands, barred: Collection[str]) -> Collection[str]:
    """Return the nodes that are offered and keep their room for others, which is known whatever hosts would say."""
    if source.state.cluster.ledger.find(pod.metadata.uid) is not None:
        return ()
    nodes = source.state.nominations.nodes_kept_from(pod.metadata.uid, pod.priority).difference(barred)
    return [node for node in nodes if source.decider.keeps_room(demands, node, pod.priority)]


def fit_pod(
    source: Source, viewer: Viewer, manifest: bytes, namespace: str, depth: Depth = STANDARD
) -> Generator[None, None, Fits]:
    """Say whether a pod would fit if it was created now, where, and how many of them.

    ``manifest`` is a pod in JSON as its author wrote it; the webhook's changes are made first.
    Raises PodError when it is no pod.
    """
    pod, verdict = admit_pod(source, manifest, namespace)
    if not verdict.allowed:
        return Fits(denied=verdict.message)
    hosts = yield from judge_nodes(source, pod)
    explanation = yield from _explain(source, viewer, pod, depth, hosts)
    found = yield from _count_room(source, pod, explanation, hosts)
    return msgspec.structs.replace(
        found, explanation=_conclude(source, pod, explanation, hosts), warnings=tuple(verdict.warnings)
    )


def _count_room(source: Source, pod: HostPod, explanation: Explanation, hosts: Hosts) -> Generator[None, None, Fits]:
    if explanation.outcome == "asks for no card":
        return (yield from _count_room_without_cards(source, hosts))
    if not explanation.fitting:
        return Fits()
    names = [name for name in source.node_names() if name not in hosts.refusals]
    limits = yield from hosts.count_rooms(source)
    demands = source.state.settings.read_demands(pod)
    scheduler = source.decider.beside_waiting(demands, pod.priority)
    decision = yield from scheduler.decide_in_steps(demands, names)
    room = yield from count_capacity(scheduler, demands, decision, limits)
    rooms = tuple(NodeRoom(node=node, pods=pods) for node, pods in room.by_node[:_MOST_ROOMS])
    return Fits(pods=room.pods, is_least=room.is_least, rooms=rooms)


def _count_room_without_cards(source: Source, hosts: Hosts) -> Generator[None, None, Fits]:
    limits = yield from hosts.count_rooms(source)
    takes = [name for name in source.state.shown.nodes if name not in hosts.refusals]
    rooms = sorted(((name, pods) for name, pods in limits.items() if pods), key=lambda room: (-room[1], room[0]))
    return Fits(
        pods=sum(limits.values()),
        is_least=any(name not in limits for name in takes),
        rooms=tuple(NodeRoom(node=node, pods=pods) for node, pods in rooms[:_MOST_ROOMS]),
    )


def admit_pod(source: Source, manifest: bytes, namespace: str) -> tuple[HostPod, Verdict]:
    """Return the pod of a manifest in JSON as the webhook leaves it, and what webhook and API server say.

    Raises PodError when it is no pod.
    """
    try:
        raw = _read_manifest(manifest, namespace)
        # What the decoder went down into may still be too deep for this.
        encoded = msgspec.json.encode(raw)
    except PodError:
        raise
    except BAD_JSON as error:
        raise PodError(f"this is no pod: {error}") from error
    if refused := tell_misspelt(raw):
        return HostPod(), Verdict(allowed=False, message=refused)
    review = Review("admission.k8s.io/v1", "", namespace, encoded)
    settings = source.state.settings
    verdict = review_pod(review, settings, Known(source.state.headroom, source.state.facts_of))
    if not verdict.allowed:
        return HostPod(), verdict
    apply_patch(raw, verdict.patch)
    if refused := tell_unusable(raw):
        return HostPod(), Verdict(allowed=False, message=refused)
    return msgspec.convert(raw, HostPod), add_warnings(
        review, verdict, settings, ClusterOffers(source.state.cluster, source.state.shown).cluster
    )


def _read_manifest(manifest: bytes, namespace: str) -> dict[str, Any]:
    """Return a pod as the API server would show it to the webhook.

    Raises PodError for another kind, one of BAD_JSON for what is no object.
    """
    raw = decode(manifest, dict[str, Any])
    msgspec.convert(raw, HostPod)
    if raw.get("kind", "Pod") != "Pod":
        raise PodError(f"this is a {raw['kind']}, not a Pod: give the pod of its template")
    raw["metadata"] = {**(raw.get("metadata") or {}), "namespace": namespace, "uid": _IMAGINED_UID}
    raw["metadata"].setdefault("name", raw["metadata"].get("generateName") or "pod")
    return raw
