"""The parts of a scheduler process and how they know each other. Nothing runs here: the process starts them."""

from collections.abc import Callable, Coroutine
from typing import Any

from gpuloom.engine.decision.event_messages import MESSAGE_LIMIT_BYTES, NO_LIMIT_BYTES
from gpuloom.kube import EventRecorder, KubeClient
from gpuloom.scheduler.admission.cpuonly import add_preference
from gpuloom.scheduler.admission.offers import ClusterOffers
from gpuloom.scheduler.admission.review import Known, add_amounts, add_warnings, review_pod
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
from gpuloom.scheduler.filter.repeated import RepeatedRefusals
from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.scheduler.groups.cleanup import GroupCleanup
from gpuloom.scheduler.http.routes import Routes
from gpuloom.scheduler.http.timing import Latencies
from gpuloom.scheduler.http.webhook import WebhookEndpoint
from gpuloom.scheduler.leadership.gate import LeadershipGate
from gpuloom.scheduler.leadership.rivals import RivalLeases
from gpuloom.scheduler.leadership.rivalwatch import RivalLeaseWatch
from gpuloom.scheduler.leadership.rolelabel import RoleLabels
from gpuloom.scheduler.metrics.cards import CardMetrics
from gpuloom.scheduler.nodes.handler import NodeHandler
from gpuloom.scheduler.nodes.handshakes import HandshakeWriter
from gpuloom.scheduler.nodes.resync import NodeResync
from gpuloom.scheduler.observer import NOBODY, ProcessObserver, ReviewCall
from gpuloom.scheduler.outlook.keeper import OutlookKeeper
from gpuloom.scheduler.pods.byannotation import PodHandlerByAnnotation
from gpuloom.scheduler.pods.cleanup import ReservationCleanup
from gpuloom.scheduler.pods.elsewhere import NodePointer
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.pods.requeue import PodRequeuer
from gpuloom.scheduler.preemption.flow import PreemptionFlow
from gpuloom.scheduler.preemption.verb import PreemptVerb
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.watch.budgets import BudgetHandler
from gpuloom.scheduler.watch.informers import Informers
from gpuloom.scheduler.watch.quotas import QuotaHandler
from gpuloom.serving.aside import Aside
from gpuloom.serving.callers import OpenListeners
from gpuloom.serving.rights import Rights
from gpuloom.wire.admission import Review, Verdict


class Parts:
    """One of each, over one state; made in this order, because each knows only what is made before it."""

    def __init__(
        self,
        settings: SchedulerSettings,
        client: KubeClient,
        clocks: Clocks,
        recorder: EventRecorder | None = None,
        make_observer: Callable[[SchedulerState], ProcessObserver] = (lambda _: NOBODY),
    ) -> None:
        """Put a process together; without ``recorder`` its events go to the API server, cut to what that takes.

        To a ``recorder`` they go all and in full, and before the reply that they belong to.
        """
        self.settings, self.client, self.clocks = settings, client, clocks
        self.state = SchedulerState(settings)
        self.observer = make_observer(self.state)
        self.latencies = Latencies()
        self.outlook = OutlookKeeper(self.state, clocks, self.observer.on_outlook)
        if recorder is None:
            self.recorder = self._make_recorder()
            self._make_filter(DeferredWork(), PERIOD_S, MESSAGE_LIMIT_BYTES)
        else:
            self.recorder = recorder
            self._make_filter(ImmediateWork(), 0.0, NO_LIMIT_BYTES)
        self._make_bind()
        self._make_node_loop()
        self._make_watches()
        self._make_leadership()
        self._make_preemption()
        self._make_endpoints()

    def _make_recorder(self) -> EventRecorder:
        """Make what writes events when nothing more urgent is to do."""
        return EventRecorder(
            self.client.with_own_budget(),
            self.settings.scheduler_name,
            is_busy=lambda: bool(self.state.binds.binding) or self.latencies.is_busy,
        )

    def _make_filter(self, deferred: DeferredWork, period_s: float, event_bytes: int) -> None:
        self.deferred = deferred
        self.refused = RefusedPodEvents(self.state.waiting, self.state.charge, self.recorder, self.clocks, period_s)
        placer = PodPlacer(
            self.state,
            self.recorder,
            self.clocks,
            deferred,
            self.refused,
            self.outlook,
            event_bytes,
        )
        self.filter_verb = FilterVerb(placer, self.client, self.state, self.recorder)

    def _make_bind(self) -> None:
        client, state, clocks = self.client, self.state, self.clocks
        owner_check, unserved = LockOwnerCheck(client, state, clocks), state.binds.unserved
        self.locks = NodeLocks(
            client.with_own_budget(), self.settings, clocks, owner_check, unserved, state.shown.plugins
        )
        unserved.on_free = self.locks.wake_node
        self.labeller = PodLabeller(client, state, clocks)
        self.mover = ReservationMover(state, self.outlook, self.observer.on_moved)
        self.bind_verb = BindVerb(
            client.with_own_budget(), state, self.locks, self.recorder, clocks, self.labeller, self.mover
        )
        self.cleanup = ReservationCleanup(client, state, self.locks, clocks, self.observer)

    def _make_node_loop(self) -> None:
        self.handshakes = HandshakeWriter(self.client, self.state, self.clocks)
        self.nodes = NodeHandler(self.state, self.handshakes, self.clocks)
        role_labels = RoleLabels(self.client, self.settings, self.state.charge)
        self.node_resync = NodeResync(
            self.nodes, role_labels, self.clocks, self.settings.node_pass_interval_s, self.observer
        )

    def _make_watches(self) -> None:
        state, settings = self.state, self.settings
        pods = PodHandlerByAnnotation if settings.trust_annotations else PodHandler
        self.pods = pods(state, self.clocks.monotonic)
        closes = settings.unreadable == "close"
        self.quotas = QuotaHandler(state.cluster.quotas, state.waiting.capacity_freed, closes=closes)
        self.budgets = BudgetHandler(state.shown.budgets)
        self.informers = Informers(
            self.client,
            self.pods,
            self.nodes,
            self.quotas,
            self.locks,
            note_listed=self._note_listed,
            observer=self.observer,
            budgets=self.budgets if settings.preemption == "on" else None,
        )

    def _note_listed(self) -> None:
        """Tell the gate, which is made later: it lets the informers list anew."""
        self.gate.note_listed()

    def _make_leadership(self) -> None:
        settings = self.settings
        own = settings.leader_elect_resource_namespace, settings.leader_elect_resource_name
        self.rivals = RivalLeases(own, settings.rival_namespaces)
        self.gate = LeadershipGate(
            self.state,
            self.clocks,
            list_anew=self.informers.list_anew,
            wake=self._notice_change,
            rivals=self.rivals,
            observer=self.observer,
        )

    def _notice_change(self) -> None:
        """Let all see that this process is in charge now, or is not any more."""
        self.locks.wake()
        self.node_resync.trigger()

    def _make_preemption(self) -> None:
        client, state, clocks = self.client, self.state, self.clocks
        self.preemption = PreemptionFlow(
            client.with_own_budget(), state, state.attempts, self.recorder, clocks, self.budgets, self.observer
        )
        self.preempt_verb = PreemptVerb(state, state.attempts, self.preemption.finder, self.budgets)
        self.defragmenter = Defragmenter(client.with_own_budget(), state, self.recorder, clocks)

    def _make_endpoints(self) -> None:
        """Make what answers calls besides those of kube-scheduler."""
        self.cards = CardMetrics(self.state.cluster, self.state.shown, self.quotas)
        self.aside = Aside()
        # Apart, so that nobody who fills in forms keeps reviews waiting.
        self.manifests = Aside(most_waiting=4)
        self.webhook = WebhookEndpoint(self._make_review(), self.aside, self.latencies)
        self.rights = Rights(self.client.with_own_budget())
        self.listeners = OpenListeners()

    def _make_review(self) -> ReviewCall:
        """Make what answers reviews; what is doubtful or only wished is added to what is recorded."""
        state, settings = self.state, self.settings
        known, offers = Known(state.headroom, state.facts_of), ClusterOffers(state.cluster, state.shown)
        review = self.observer.wrap_review(lambda one: review_pod(one, settings, known))

        def review_and_warn(one: Review) -> Verdict:
            verdict = add_preference(one, add_amounts(one, review(one), settings, known), settings)
            return add_warnings(one, verdict, settings, offers.cluster)

        return review_and_warn

    def routes(self) -> Routes:
        """Make the HTTP handlers."""
        return Routes(
            settings=self.settings,
            webhook=self.webhook,
            filter=RepeatedRefusals(self.filter_verb.placer, self.observer.wrap_filter(self.filter_verb)).filter,
            prioritize=self.observer.wrap_prioritize(self.state.offers.prioritize),
            bind=self.observer.wrap_bind(self.bind_verb.bind),
            preempt=self.preempt_verb.preempt,
            wait_answerable=self.gate.wait_answerable,
            is_ready=lambda: self.gate.is_ready,
            latencies=self.latencies,
            rights=self.rights,
        )

    def flows(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs as long as the process does; none of them ends by itself."""
        requeuer = PodRequeuer(self.client, self.state, self.clocks)
        state, settings, leases = self.state, self.settings, self.client.with_own_budget()
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
            NodePointer(self.state, requeuer, self.clocks).run(),
            self.preemption.run(),
            self.defragmenter.run(),
            self.deferred.run(),
            *follow_leases,
        ]
