"""Filter: choose node and cards, reserve them, answer; nothing is written (scheduler 4, binding 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec
import structlog

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.event_messages import (
    MESSAGE_LIMIT_BYTES,
    NO_REQUEST,
    describe_success,
    describe_unreadable,
)
from gpuloom.engine.decision.offer import NodeOffer
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.allocations import reserve
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.kube import EventRecorder
from gpuloom.kube.podevents import record
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.events.refusals import RefusalTexts
from gpuloom.scheduler.events.refusedpods import RefusedPodEvents, asks_nominated_alone
from gpuloom.scheduler.filter.deferred import DeferredWork
from gpuloom.scheduler.nodes.handler import read_all_cards
from gpuloom.scheduler.outlook.keeper import OutlookKeeper
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import FilterArgs, FilterResult, decode_node_list, encode_node_list
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodPlacer:
    """Chooses a node and cards for a pod, and reserves them.

    It never awaits, so two calls never see the same free card.
    """

    state: SchedulerState
    recorder: EventRecorder
    clocks: Clocks
    deferred: DeferredWork
    refused: RefusedPodEvents
    outlook: OutlookKeeper
    event_bytes: int = MESSAGE_LIMIT_BYTES
    refusal_texts: RefusalTexts = field(init=False)

    def __post_init__(self) -> None:
        short = self.state.settings.failed_node_reason == "short"
        object.__setattr__(self, "refusal_texts", RefusalTexts(short, self.event_bytes))

    def filter(self, args: FilterArgs, *, most_tries: int | None = None) -> FilterResult:
        """Answer one filter call; a pod that fits holds its cards from now on.

        Raises UnsettledError when so many nodes were tried in vain and more are left; nothing is decided then.
        """
        pod = args.pod
        if pod is None:
            return FilterResult(error="extender args missing pod")
        if args.nodes is not None:
            return self._simulate(pod, args, args.nodes)
        # It is remembered with what is decided, and a pod that fits nowhere comes again and again.
        pod = self.state.shown.size_limits.cut(pod)
        if objection := self.find_objection(pod):
            return FilterResult(error=objection)
        self.state.offers.forget(pod.metadata.uid)
        try:
            demands = self.state.settings.read_demands(pod)
        except PolicyError as error:
            self.state.release(pod.metadata.uid)
            message = describe_unreadable(error, pod.name)
            record(self.recorder, pod, "Warning", "FilteringFailed", message)
            return FilterResult(error=message)
        if not demands:
            if self.state.settings.no_request_event:
                record(self.recorder, pod, "Warning", "FilteringFailed", NO_REQUEST)
            return FilterResult(node_names=_all(args))
        return self._filter(pod, demands, args, most_tries)

    def _filter(self, pod: Pod, demands: Demands, args: FilterArgs, most_tries: int | None) -> FilterResult:
        """Answer for a pod that asks for cards; what an earlier try of it reserved is free for this one."""
        before = self.state.cluster.ledger.find(pod.metadata.uid)
        self.state.cluster.forget(pod.metadata.uid)
        try:
            return self._filter_anew(pod, demands, args, most_tries)
        finally:
            if before is not None and not self._holds_as(before):
                self.state.waiting.capacity_freed.set()

    def _holds_as(self, before: Reservation) -> bool:
        """Whether a pod holds what it held before: those that wait need not be looked at then."""
        now = self.state.cluster.ledger.find(before.uid)
        return now is not None and (now.node, now.shares, now.instances) == (
            before.node,
            before.shares,
            before.instances,
        )

    def _filter_anew(self, pod: Pod, demands: Demands, args: FilterArgs, most_tries: int | None) -> FilterResult:
        """Answer for a pod that holds nothing."""
        self.state.nominations.unclaimed_since.pop(pod.metadata.uid, None)
        if objection := self.state.groups.find_objection(pod, self.clocks.monotonic()):
            return FilterResult(failed_nodes=dict.fromkeys(_all(args) or (), objection))
        self._note_group(pod)
        self.outlook.refresh_cpu(demands)
        self.outlook.see(pod, demands)
        names = args.nodenames or NodeNames(b"[]")
        pod_decision = self.state.decider.decide_among(demands, names, pod.priority, most_tries=most_tries)
        offer = self._offer(pod, demands, pod_decision, most_tries)
        self._follow_nomination(pod.metadata.uid, pod_decision.node)
        at = self.clocks.now()
        self.state.decisions.note(at, pod, pod_decision, offered=len(args.nodenames or ()))
        return (
            self._refuse(pod, demands, pod_decision, names)
            if pod_decision.node is None
            else self._accept(pod, pod_decision, pod_decision.node, at, offer)
        )

    def _note_group(self, pod: Pod) -> None:
        """Note that a pod of a group is tried, and what the watch says of the try before."""
        if pod.own_group:
            seen = self.state.shown.pods.get(pod.metadata.uid)
            words = seen.last_words if isinstance(seen, HostPod) else ""
            self.state.groups.note_filtered(pod, words, self.clocks.monotonic())

    def _offer(self, pod: Pod, demands: Demands, decision: Decision, most_tries: int | None) -> NodeOffer | None:
        """Return all nodes that take a pod, None where the extender chooses."""
        if decision.node is None or self.state.settings.node_choice == "extender":
            return None
        return self.state.decider.offer(demands, decision, decision.node, pod.priority, most_tries=most_tries)

    def _simulate(self, pod: Pod, args: FilterArgs, nodes: msgspec.Raw) -> FilterResult:
        """Answer an autoscaler that sends whole nodes, as if they were unused; nothing changes here (scheduler 4.8)."""
        if not self.state.settings.asks_for_cards(pod):
            return FilterResult(nodes=nodes, node_names=_all(args))
        try:
            received = {item.node.name: item for item in decode_node_list(nodes)}
            demands = self.state.settings.read_demands(pod)
        except WireError as error:
            return FilterResult(error=str(error))
        except PolicyError as error:
            return FilterResult(error=describe_unreadable(error, pod.name))
        decision = self.state.pod_scheduler.simulate(
            demands, {name: read_all_cards(item.node, self.state.settings.catalog) for name, item in received.items()}
        )
        failed = self.refusal_texts.node_texts(decision)
        if decision.node is None:
            return FilterResult(failed_nodes=failed)
        fitting = {decision.node}
        if self.state.settings.simulation_reply == "all":
            fitting |= {name for name, _ in decision.fitting.worst_first()}
        items = [item for name, item in received.items() if name in fitting]
        return FilterResult(nodes=encode_node_list(items), failed_nodes=failed)

    def find_objection(self, pod: Pod) -> str:
        """Say why no decision may be made for this pod now, empty when one may."""
        if objection := self.state.charge.objection:
            return objection
        if not (pod.metadata.uid and pod.name and pod.namespace):
            # Nobody could ever ask for it, so its cards would be held for nothing.
            return "extender args must name the pod, its namespace and its UID"
        if pod.metadata.uid in self.state.binds.binding:
            return f"bind of pod {pod.full_name} in progress"
        return "" if self.state.settings.trust_annotations else self._find_objection_to_state(pod)

    def _find_objection_to_state(self, pod: Pod) -> str:
        uid = pod.metadata.uid
        if uid in self.state.shown.gone:
            return f"pod {pod.full_name} is deleted"
        node = self.state.find_bound_node(uid)
        return f"pod {pod.full_name} is bound to node {node} already" if node else ""

    def _accept(self, pod: Pod, decision: Decision, node: str, at: datetime, offer: NodeOffer | None) -> FilterResult:
        self.state.waiting.drop(pod.metadata.uid)
        self.state.attempts.drop(pod.metadata.uid)
        self._reserve(pod, decision, node, at)
        self.outlook.note_decided(pod, node)
        self._defer(decision, self._record_success(pod, decision))
        if offer is None:
            return FilterResult(node_names=[node])
        self.state.offers.note(pod.metadata.uid, offer)
        return FilterResult(node_names=list(offer))

    def _record_success(self, pod: Pod, decision: Decision) -> Iterator[None]:
        yield from decision.complete()
        # Ranking the nodes costs as much as choosing one, so it waits until the event is written.
        tell = partial(describe_success, decision, self.event_bytes)
        record(self.recorder, pod, "Normal", "FilteringSucceed", tell)

    def _follow_nomination(self, uid: str, node: str | None) -> None:
        """End the nomination of a pod that has found room elsewhere.

        Whether a refused one will still have room on its node is looked at each second, with all others: kube-scheduler
        may try it every few milliseconds.
        """
        nomination = self.state.nominations.find(uid)
        if nomination is not None and node not in (None, nomination.node):
            self.state.nominations.end(uid, "elsewhere")

    def _refuse(self, pod: Pod, demands: Demands, decision: Decision, names: NodeNames) -> FilterResult:
        now = self.clocks.monotonic()
        self.state.waiting.note_refused(pod, demands, now)
        self.state.groups.note_refused(pod)
        failed = self.refusal_texts.node_texts(decision)
        refuses_all = self.state.cluster.nodes <= failed.keys()
        # Another call with more nodes, or a watch that has yet to show the pod, may be right behind.
        is_certain = refuses_all and pod.metadata.uid in self.state.shown.pods
        self.state.attempts.note_refused(pod, demands, names, now, is_certain=is_certain)
        if not refuses_all:
            self.state.waiting.partly_offered.note_refused(pod.metadata.uid, names, now)
        self._defer(decision, self._record_failure(pod, decision, is_followed=asks_nominated_alone(pod, names)))
        return FilterResult(failed_nodes=failed)

    def _record_failure(self, pod: Pod, decision: Decision, *, is_followed: bool) -> Iterator[None]:
        messages = []
        for message in self.refusal_texts.event_messages(decision):
            messages.append(message)
            yield
        self.refused.tell(pod, messages, is_followed=is_followed)

    def _defer(self, decision: Decision, work: Iterator[None]) -> None:
        if not self.deferred.add(work):
            self.recorder.dropped += 1
            decision.abandon()

    def _reserve(self, pod: Pod, decision: Decision, node: str, at: datetime) -> None:
        self._warn_of_several(pod, decision)
        self.state.cluster.assume(
            reserve(
                pod,
                self.state.settings.catalog,
                node,
                decision.shares,
                status=ReservationStatus.ASSUMED,
                since=self.clocks.monotonic(),
                decided_at=int(at.timestamp()),
                instances=decision.instances,
                extras=decision.extras,
            )
        )

    def _warn_of_several(self, pod: Pod, decision: Decision) -> None:
        """Tell whoever runs the cluster of cards that a vendor's own plugin does not hear of (vendors 4.2)."""
        for word, given in decision.shares.items():
            cards = sum(map(len, given))
            if cards > 1 and self.state.settings.catalog[word].tells_one_card:
                _log.warning("the vendor's plugin is told of the first card only", pod=pod.full_name, cards=cards)


def _all(args: FilterArgs) -> list[str] | None:
    return None if args.nodenames is None else args.nodenames.all()
