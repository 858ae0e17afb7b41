"""The parts of a scheduler process and how they know each other. Nothing runs here: the process starts them."""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from gpuloom.engine.decision.event_messages import MESSAGE_LIMIT_BYTES, NO_LIMIT_BYTES
from gpuloom.kube import EventRecorder, KubeClient
from gpuloom.scheduler.admission.cpuonly import add_preference
from gpuloom.scheduler.admission.offers import ClusterOffers
from gpuloom.scheduler.admission.review import Known, add_warnings, review_pod
from gpuloom.scheduler.bind.moving import ReservationMover
from gpuloom.scheduler.bind.nodelock.locks import NodeLocks
from gpuloom.scheduler.bind.nodelock.ownercheck import LockOwnerCheck
from gpuloom.scheduler.bind.podlabel import PodLabeller
from gpuloom.scheduler.bind.verb import BindVerb
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.defragmentation.controller import Defragmenter
from gpuloom.scheduler.events.closedcards import ClosedCardEvents
from gpuloom.scheduler.events.mistyped import MistypedEvents
from gpuloom.scheduler.events.refusedpods import PERIOD_S, RefusedPodEvents
from gpuloom.scheduler.events.unserved import UnservedEvents
from gpuloom.scheduler.filter.decide import PodPlacer
from gpuloom.scheduler.filter.deferred import DeferredWork, ImmediateWork
from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.scheduler.groups.cleanup import GroupCleanup
from gpuloom.scheduler.http.routes import Routes
from gpuloom.scheduler.http.timing import CallTimer
from gpuloom.scheduler.http.webhook import WebhookEndpoint
from gpuloom.scheduler.leadership.gate import LeadershipGate
from gpuloom.scheduler.leadership.rivals import RivalLeases
from gpuloom.scheduler.leadership.rivalwatch import RivalLeaseWatch
from gpuloom.scheduler.leadership.rolelabel import RoleLabels
from gpuloom.scheduler.metrics.cards import CardMetrics
from gpuloom.scheduler.metrics.exposition import write_exposition
from gpuloom.scheduler.metrics.process import ProcessMetrics, count_moves, count_preemptions, count_rivals
from gpuloom.scheduler.metrics.series import Latencies, Series, build_info
from gpuloom.scheduler.nodes.handler import NodeHandler
from gpuloom.scheduler.nodes.handshakes import HandshakeWriter
from gpuloom.scheduler.nodes.resync import NodeResync
from gpuloom.scheduler.observer import ProcessObserver
from gpuloom.scheduler.outlook.keeper import OutlookKeeper
from gpuloom.scheduler.pods.byannotation import PodHandlerByAnnotation
from gpuloom.scheduler.pods.cleanup import ReservationCleanup
from gpuloom.scheduler.pods.elsewhere import NodePointer, PartlyOffered
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.pods.requeue import PodRequeuer
from gpuloom.scheduler.preemption.attempts import PreemptionAttempts
from gpuloom.scheduler.preemption.flow import PreemptionFlow
from gpuloom.scheduler.preemption.verb import PreemptVerb
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.watch.budgets import BudgetHandler
from gpuloom.scheduler.watch.informers import Informers
from gpuloom.scheduler.watch.quotas import QuotaHandler
from gpuloom.serving.aside import Aside
from gpuloom.serving.callers import Doors
from gpuloom.serving.connections import Handler
from gpuloom.serving.presented import Presented
from gpuloom.serving.rights import Rights
from gpuloom.serving.scrapes import Scrapes
from gpuloom.wire.admission import Review, Verdict


@dataclass(frozen=True, slots=True)
class Parts:
    """One of each, over one state."""

    client: KubeClient
    clocks: Clocks
    state: SchedulerState
    recorder: EventRecorder
    deferred: DeferredWork
    locks: NodeLocks
    bind_verb: BindVerb
    mover: ReservationMover
    labeller: PodLabeller
    outlook: OutlookKeeper
    handshakes: HandshakeWriter
    node_resync: NodeResync
    cleanup: ReservationCleanup
    informers: Informers
    filter_verb: FilterVerb
    pods: PodHandler
    nodes: NodeHandler
    quotas: QuotaHandler
    preemption: PreemptionFlow
    preempt_verb: PreemptVerb
    partly_offered: PartlyOffered
    refused: RefusedPodEvents
    defragmenter: Defragmenter
    gate: LeadershipGate
    rivals: RivalLeases
    cards: CardMetrics
    latencies: Latencies
    aside: Aside
    manifests: Aside
    webhook: WebhookEndpoint
    rights: Rights
    doors: Doors
    observer: ProcessObserver | None

    def routes(self) -> Routes:
        """Make the HTTP handlers."""
        observer, filter_call, bind_call = self.observer, self.filter_verb.filter, self.bind_verb.bind
        prioritize = self.state.offers.prioritize
        return Routes(
            settings=self.state.settings,
            webhook=self.webhook,
            filter=observer.wrap_filter(self.filter_verb) if observer else filter_call,
            prioritize=observer.wrap_prioritize(prioritize) if observer else prioritize,
            bind=observer.wrap_bind(bind_call) if observer else bind_call,
            preempt=self.preempt_verb.preempt,
            wait_answerable=self.gate.wait_answerable,
            is_ready=lambda: self.gate.is_ready,
            latencies=self.latencies,
            rights=self.rights,
        )

    def series(self, presented: Presented | None = None) -> Iterator[Series]:
        """Give all metrics but those of the registry; ``presented`` is the server's certificate."""
        yield build_info()
        own = ProcessMetrics(
            self.state,
            self.clocks,
            self.informers,
            self.locks,
            self.nodes,
            self.recorder,
            self.labeller,
            self.cleanup,
            self.pods.watchdog,
            self.pods.foreign,
            self.webhook,
            self.doors,
        )
        yield from own.series(presented)
        yield from count_preemptions(self.preemption.counts, self.state)
        yield from count_moves(self.defragmenter.counts)
        yield from count_rivals(self.rivals, self.clocks.monotonic)
        for one in self.cards.series(legacy=self.state.settings.legacy_metrics):
            yield one.with_zone()

    def scraper(self, presented: Presented | None) -> Handler:
        """Make what answers Prometheus."""
        return Scrapes(lambda: write_exposition(self.series(presented), self.latencies.registry)).answer

    def flows(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs as long as the process does; none of them ends by itself."""
        requeuer = PodRequeuer(self.client, self.state, self.clocks)
        state, settings, leases = self.state, self.state.settings, self.client.with_own_budget()
        rivals = RivalLeaseWatch(settings, self.rivals, self.clocks, self.recorder, self.gate.check)
        follow_leases = [self.gate.run(leases), rivals.run(leases)] if settings.leader_elect else []
        return [
            self.informers.run(),
            self.handshakes.run(),
            self.node_resync.run(),
            self.cleanup.run(),
            GroupCleanup(self.state, self.clocks, self.observer).run(),
            ClosedCardEvents(state.cluster, state.charge, self.recorder, self.clocks).run(),
            UnservedEvents(
                state.binds.unserved, settings.node_lock_timeout_s, state.charge, self.recorder, self.clocks
            ).run(),
            MistypedEvents(settings, state.shown, state.charge, self.recorder, self.clocks).run(),
            self.refused.run(),
            self.labeller.run(),
            self.outlook.run(),
            requeuer.run(),
            NodePointer(self.state, self.partly_offered, requeuer, self.clocks).run(),
            self.preemption.run(),
            self.defragmenter.run(),
            self.deferred.run(),
            *follow_leases,
        ]


def assemble(
    settings: SchedulerSettings,
    client: KubeClient,
    clocks: Clocks,
    recorder: EventRecorder | None = None,
    make_observer: Callable[[SchedulerState], ProcessObserver] | None = None,
) -> Parts:
    """Put a process together; without ``recorder`` its events go to the API server, cut to what that takes.

    To a ``recorder`` they go all and in full, and before the reply that they belong to.
    """
    event_bytes, period_s = (MESSAGE_LIMIT_BYTES, PERIOD_S) if recorder is None else (NO_LIMIT_BYTES, 0.0)
    state = SchedulerState(settings)
    observer = make_observer(state) if make_observer else None
    outlook = OutlookKeeper(state, clocks)
    if observer is not None:
        outlook.note = observer.on_outlook
    latencies = Latencies()
    owner_check = LockOwnerCheck(client, state, clocks)
    locks = NodeLocks(
        client.with_own_budget(), settings, clocks, owner_check, state.binds.unserved, state.shown.plugins
    )
    state.binds.unserved.on_free = locks.wake_node
    deferred = DeferredWork() if recorder is None else ImmediateWork()
    recorder = recorder or EventRecorder(
        client.with_own_budget(),
        settings.scheduler_name,
        is_busy=lambda: bool(state.binds.binding) or latencies.is_busy,
    )
    labeller = PodLabeller(client, state, clocks)
    mover = ReservationMover(state, outlook, observer.on_moved if observer else None)
    attempts = PreemptionAttempts(settings.preemption == "on", state.nominations)
    partly_offered = PartlyOffered()
    refused = RefusedPodEvents(recorder, clocks, period_s)
    placer = PodPlacer(state, recorder, clocks, deferred, attempts, partly_offered, refused, event_bytes, outlook)
    handshakes = HandshakeWriter(client, state, clocks)
    nodes = NodeHandler(state, handshakes, clocks)
    quotas = QuotaHandler(state.cluster.quotas, state.waiting.capacity_freed, closes=settings.unreadable == "close")
    node_resync = NodeResync(
        nodes, RoleLabels(client, settings, state.charge), clocks, settings.node_pass_interval_s, observer
    )

    aside = Aside()

    def review(one: Review) -> Verdict:
        return review_pod(one, settings, Known(state.headroom, state.facts_of))

    review_recorded = observer.wrap_review(review) if observer else review

    offers = ClusterOffers(state.cluster, state.shown)

    def review_and_warn(one: Review) -> Verdict:
        verdict = add_preference(one, review_recorded(one), settings)
        return add_warnings(one, verdict, settings, offers.cluster)

    def note_listed() -> None:
        gate.note_listed()

    def notice_change() -> None:
        locks.wake()
        node_resync.trigger()

    pods = (PodHandlerByAnnotation if settings.trust_annotations else PodHandler)(state, clocks.monotonic)
    budgets = BudgetHandler(state.shown.budgets) if settings.preemption == "on" else None
    informers = Informers(
        client, pods, nodes, quotas, locks, note_listed=note_listed, observer=observer, budgets=budgets
    )
    rivals = RivalLeases(
        (settings.leader_elect_resource_namespace, settings.leader_elect_resource_name), settings.rival_namespaces
    )
    gate = LeadershipGate(
        settings, state, clocks, list_anew=informers.list_anew, wake=notice_change, rivals=rivals, observer=observer
    )
    preemption = PreemptionFlow(client.with_own_budget(), state, attempts, recorder, clocks, budgets, observer)
    return Parts(
        client=client,
        clocks=clocks,
        state=state,
        recorder=recorder,
        deferred=deferred,
        locks=locks,
        bind_verb=BindVerb(client.with_own_budget(), state, locks, recorder, clocks, labeller, mover),
        mover=mover,
        labeller=labeller,
        outlook=outlook,
        handshakes=handshakes,
        node_resync=node_resync,
        cleanup=ReservationCleanup(client, state, locks, clocks, observer),
        informers=informers,
        filter_verb=FilterVerb(placer, client, state, recorder),
        pods=pods,
        nodes=nodes,
        quotas=quotas,
        preemption=preemption,
        preempt_verb=PreemptVerb(state, attempts, preemption.finder, budgets),
        partly_offered=partly_offered,
        refused=refused,
        defragmenter=Defragmenter(client.with_own_budget(), state, recorder, clocks),
        gate=gate,
        rivals=rivals,
        cards=CardMetrics(state.cluster, state.shown, quotas),
        latencies=latencies,
        aside=aside,
        # Apart, so that nobody who fills in forms keeps reviews waiting.
        manifests=Aside(most_waiting=4),
        webhook=WebhookEndpoint(review_and_warn, aside, CallTimer(latencies, "webhook")),
        rights=Rights(client.with_own_budget()),
        doors=Doors(),
        observer=observer,
    )
