"""What kube-scheduler's own filters would say of a pod now, node by node, where it is known."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from typing import TypeVar

import msgspec

from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.hosts import Shortages, count_host_reasons, sum_up_hosts, tell_shortage
from gpuloom.engine.explanation.values import HostVerdict
from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.failed_filters import FailedFilters, find_failed_filters
from gpuloom.engine.hostfit.filters import (
    Shortage,
    count_host_room,
    find_enough,
    find_further_refusals,
    find_shortage,
    refuse_host,
    tells_amounts,
    uncordon,
)
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.admission.offers import ClusterOffers
from gpuloom.scheduler.admission.unknown import UnknownResource, find_unknown
from gpuloom.scheduler.admission.warn import MOST_WARNINGS
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.pods.pending import KEEPING, read_last_words
from gpuloom.web.views.source import Source
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Node, Pod

NOT_RECORDED = "a snapshot or recording tells of cards alone: ask the running scheduler"
NOT_READ = "the scheduler has not seen the whole pod yet: ask again"
NOT_READY = "node(s) were not ready"
NOT_OFFERED = (
    "kube-scheduler did not offer the node at its last try, for a reason that is gone or that gpuloom does not see"
)
NOT_NEEDED = (
    "kube-scheduler did not offer the node at its last try: it had enough others, or a reason that is gone or that "
    "gpuloom does not see"
)
KEPT = f"{KEEPING} (see gpuloom nodes NODE)"
_NODES_A_STEP = 200
_MOST_CLEARED = 8
_ENOUGH_NODES = 100
"""With so many nodes that take a pod kube-scheduler may stop looking for more (percentageOfNodesToScore)."""
_Found = TypeVar("_Found")


def tell_kept(nodes: Collection[str]) -> Sequence[str]:
    """Say that the room of nodes is kept for others, nothing where none is."""
    return (f"{len(nodes):,} {KEPT}",) if nodes else ()


@dataclass(frozen=True, slots=True)
class Hosts:
    """What kube-scheduler's filters say of all nodes.

    refusals   by node why it does not take the pod, in kube-scheduler's words
    kept       the nodes among them whose room is kept for others, which is our own word
    demand     what was looked for; None where nothing could be, and ``not_looked_at`` says why
    unjudged   what was not looked at although kube-scheduler does
    """

    refusals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    demand: HostDemand | None = None
    unjudged: tuple[str, ...] = ()
    not_looked_at: str = ""
    last_words: str = ""
    kept: frozenset[str] = frozenset()

    def tell_kept(self) -> Sequence[str]:
        """Say that room is kept for others, where nothing else of hosts is told."""
        return tell_kept(self.kept) if self.demand is None else ()

    def without_kept(self) -> "Hosts":
        """Return what kube-scheduler's filters say alone."""
        refusals = {name: why for name, why in self.refusals.items() if name not in self.kept}
        return replace(self, refusals=refusals, kept=frozenset())

    def sum_up(
        self, source: Source, with_cards: Collection[str], shortages: Shortages
    ) -> Generator[None, None, HostVerdict]:
        """Sum up in steps over the nodes whose cards would do; ``shortages`` are those of these nodes.

        Without any, over all nodes, if none of them takes the pod.
        """
        if self.demand is None:
            return HostVerdict(not_looked_at=self.not_looked_at, last_words=self.last_words)
        names = with_cards or source.node_names()
        is_refused = self._refuse_all(names)
        verdict = sum_up_hosts(with_cards, self.refusals if with_cards or is_refused else {})
        find = find_further_refusals
        further = (yield from _look_at(source, names, self.demand, find, ready_alone=False)) if is_refused else {}
        return msgspec.structs.replace(
            verdict,
            further=count_host_reasons(further.values()),
            shortage=tell_shortage(shortages, len(names)),
            unjudged=self.unjudged,
            last_words=self.last_words,
        )

    def _refuse_all(self, names: Collection[str]) -> bool:
        return all(name in self.refusals for name in names)

    def find_shortages(
        self, source: Source, names: Collection[str]
    ) -> Generator[None, None, Mapping[str, Sequence[Shortage]]]:
        """Find in steps the nodes that have too little and lack nothing else; none where any node takes the pod."""
        if self.demand is None or not self._refuse_all(names):
            return {}
        return (yield from _look_at(source, names, self.demand, find_shortage))

    def find_failed_filters(
        self, source: Source, names: Collection[str]
    ) -> Generator[None, None, dict[str, FailedFilters]]:
        """Find in steps the nodes that would take the pod if something were changed, and what."""
        if self.demand is None:
            return {}
        found = yield from _look_at(source, names, self.demand, find_failed_filters)
        return {name: one for name, one in found.items() if not one.is_cordoned or _runs(source, name)}

    def find_enough(self, source: Source, shortages: Shortages) -> Generator[None, None, dict[str, Sequence[str]]]:
        """Find in steps, on the nodes that lack least, pods each of which takes as much as is lacking, by UID."""
        if self.demand is None:
            return {}
        lack = {name: max((one.asked - one.free) / one.asked for one in short) for name, short in shortages.items()}
        found: dict[str, Sequence[str]] = {}
        for name in nsmallest(_MOST_CLEARED, lack, key=lambda name: (lack[name], name)):
            found |= yield from _look_at(source, (name,), self.demand, find_enough)
        return found

    def count_rooms(self, source: Source) -> Generator[None, None, dict[str, int]]:
        """Count in steps how many such pods the nodes take, cards apart; a node without a limit is not in it."""
        rooms: dict[str, int] = {}
        if self.demand is None:
            return rooms
        usage = source.state.shown.hosts
        for number, (name, node) in enumerate(list(source.state.shown.nodes.items())):
            if number % _NODES_A_STEP == 0:
                yield
            if name not in self.refusals and (room := count_host_room(node, usage.on(name), self.demand)) is not None:
                rooms[name] = room
        return rooms


def _look_at(
    source: Source,
    names: Collection[str],
    demand: HostDemand,
    find: Callable[[Node, NodeUsage, HostDemand], _Found | None],
    *,
    ready_alone: bool = True,
) -> Generator[None, None, dict[str, _Found]]:
    """Find something of nodes in steps; those of which there is nothing, or that are not ready, are left out."""
    found: dict[str, _Found] = {}
    for number, name in enumerate(names):
        if number % _NODES_A_STEP == 0:
            yield
        node = source.state.shown.nodes.get(name)
        if node is None or (ready_alone and not _is_ready(node)):
            continue
        if what := find(node, source.state.shown.hosts.on(name), demand):
            found[name] = what
    return found


def _runs(source: Source, name: str) -> bool:
    """Tell whether a cordoned node would run pods if it were opened."""
    node = source.state.shown.nodes.get(name)
    return node is not None and _is_ready(uncordon(node))


def _is_ready(node: Node) -> bool:
    """Tell whether a node runs pods, closed to new ones or not: a pod may tolerate that."""
    return bool(node.spec.unschedulable or not explain_unschedulable(node))


def read_demand_of(source: Source, pod: Pod) -> HostDemand | None:
    """Read what a pod asks of its node beside cards; None where that is not known."""
    if not source.state.shown.hosts.is_complete or not isinstance(pod, HostPod):
        return None
    return read_host_demand(pod, source.state.shown.hosts.ignored)


def judge_hosts(source: Source, pod: Pod) -> Generator[None, None, Hosts]:
    """Ask the filters about all nodes, in steps; what the pod itself takes of its own is not in its way."""
    demand, words = read_demand_of(source, pod), read_last_words(pod)
    if demand is None:
        why = NOT_READ if source.state.shown.hosts.is_complete else NOT_RECORDED
        return Hosts(not_looked_at=why, last_words=words, refusals=_refuse_not_ready(source))
    refusals: dict[str, Sequence[str]] = {}
    silent = 0
    for number, (name, node) in enumerate(list(source.state.shown.nodes.items())):
        if number % _NODES_A_STEP == 0:
            yield
        silent += not tells_amounts(node)
        if reasons := refuse_host(node, _leave_out(source.state.shown.hosts.on(name), pod.metadata.uid), demand):
            refusals[name] = reasons
        elif not _is_ready(node):
            refusals[name] = (NOT_READY,)
    untold = [_tell_silent(silent)] if silent else []
    return Hosts(refusals, demand, (*demand.unjudged, *untold), last_words=words)


def _leave_out(usage: NodeUsage, uid: str) -> NodeUsage:
    """Return what the other pods of a node take."""
    if uid not in usage.pods:
        return usage
    others = usage.copy()
    others.drop(uid)
    return others


def judge_nodes(source: Source, pod: Pod) -> Generator[None, None, Hosts]:
    """Ask the filters, and add nodes whose cards would do if no others that go before a pod had their room there."""
    hosts = yield from judge_hosts(source, pod)
    state, kept = source.state, set[str]()
    if not state.nominations or not state.settings.asks_for_cards(pod):
        return hosts
    try:
        demands = state.settings.read_demands(pod)
    except PolicyError:
        return hosts
    for node in state.nominations.nodes_kept_from(pod.metadata.uid, pod.priority):
        yield
        if demands and node not in hosts.refusals and source.decider.keeps_room(demands, node, pod.priority):
            kept.add(node)
    return replace(hosts, refusals={**hosts.refusals, **dict.fromkeys(kept, (KEPT,))}, kept=frozenset(kept))


def _tell_silent(nodes: int) -> str:
    return f"the resources of {tell_count(nodes, 'node')} without allocatable pods"


def _refuse_not_ready(source: Source) -> dict[str, Sequence[str]]:
    nodes = source.state.shown.nodes.items()
    return {name: (why,) for name, node in nodes if (why := explain_unschedulable(node))}


def find_barred(source: Source, pod: Pod, hosts: Hosts | None, offered: frozenset[str] | None = None) -> dict[str, str]:
    """Return the nodes that kube-scheduler does not offer for a pod, and why.

    hosts    what its filters say, None where nobody asked them
    offered  what it offers; without it, what it offered at its last try, if that is remembered
    """
    refusals = {} if hosts is None else {name: ", ".join(why) for name, why in hosts.refusals.items()}
    barred = {
        name: why if hosts is not None and name in hosts.kept else f"kube-scheduler: {why}"
        for name, why in refusals.items()
    }
    # A pod may tolerate that a node is closed.
    closed = source.state.shown.nodes if hosts is None else hosts.refusals
    barred |= {
        name: bar
        for name in closed
        if (node := source.state.shown.nodes.get(name)) is not None and (bar := explain_unschedulable(node))
    }
    decided = source.state.decisions.last_of(pod.metadata.uid)
    if offered is None and decided is not None:
        offered = decided.names()
    if offered is not None:
        why_not = NOT_OFFERED if len(offered) < _ENOUGH_NODES else NOT_NEEDED
        barred = {name: why_not for name in source.node_names() if name not in offered} | barred
    return barred


@dataclass(frozen=True, slots=True)
class CardsApart:
    """What cards alone say: the nodes whose cards would do, whatever else keeps the pod away, and the others."""

    fitting: Collection[str]
    refusals: Mapping[str, Refusal]


def judge_cards(
    source: Source, demands: Demands, headrooms: Mapping[str, Headroom] | None = None
) -> Generator[None, None, CardsApart]:
    """Ask the cards of all nodes, in steps."""
    decision = yield from source.pod_scheduler.decide_in_steps(demands, source.node_names(), headrooms)
    return CardsApart([name for name, _ in decision.fitting.worst_first()], decision.refusals)


def find_unknown_in(source: Source, pod: Pod) -> list[UnknownResource]:
    """Find what a pod asks for that nobody has; no more than the webhook would tell."""
    is_offered = ClusterOffers(source.state.cluster, source.state.shown).cluster.is_offered
    return list(islice(find_unknown(pod, source.state.settings.catalog, is_offered), MOST_WARNINGS))
