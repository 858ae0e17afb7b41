"""Being in charge: when this process may decide and write, and what follows when that changes (binding 5).

A process without leader election is in charge as soon as it knows the cluster. With it, a new term begins with some
seconds in which the writes of the leader before come to their end, and with new lists after that, which show what came
of them. Followers watch and write nothing.
Who leads is not in charge while another scheduler may decide over the same cards
(:mod:`gpuloom.scheduler.leadership.rivals`).
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field

import structlog

from gpuloom.engine.state.ledger import ReservationStatus
from gpuloom.kube import (
    LEASES,
    WRITE_DEADLINE_S,
    KubeClient,
    ReflectorTiming,
)
from gpuloom.kube.following import follow_object
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.lease import LeaseState, Term
from gpuloom.scheduler.leadership.rivals import RivalLeases
from gpuloom.scheduler.observer import NOBODY, ProcessObserver
from gpuloom.scheduler.preemption.nominating import adopt_nominations
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Lease

PERIOD_S = 0.5
SETTLING_S = WRITE_DEADLINE_S + 1.0
"""So long a write for which nobody waits any more may still arrive.

Our own, where its outcome is unknown (binding 2.1), and the old leader's after a change of leaders (decision 014): that
one writes for its kube-scheduler only, which ends when it gives up the lease, and nothing once that has hung up.
"""
SILENCE_S = 8.0
"""A leader renews its lease every two seconds, and is no longer certain to be one after ten."""
LOOK_AGAIN_S = 2.0
"""As often as a leader renews its lease, a lease that could not be watched is looked for: meanwhile nobody decides."""
STOPPING = "scheduler shutting down"

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class LeadershipGate:
    """Says whether this process is in charge: it keeps ``state.charge`` right.

    ``awaits_lists``: it waits for new lists, which have begun.

    list_anew    begins new lists; their completion is told by :meth:`note_listed`
    wake         lets all that wait see that something has changed
    rivals       what is known of other schedulers
    """

    state: SchedulerState
    clocks: Clocks
    list_anew: Callable[[], None]
    wake: Callable[[], None]
    rivals: RivalLeases
    observer: ProcessObserver = NOBODY
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    awaits_lists: bool = False
    _answerable: asyncio.Event = field(default_factory=asyncio.Event)
    _lease: LeaseState | None = None
    _term: Term | None = None
    _term_began: float = 0.0
    _complete: bool = False
    _follows: bool = False
    _has_to_list: bool = False

    def __post_init__(self) -> None:
        if self.state.settings.leader_elect:
            self._lease = LeaseState(self.state.settings.host_name)
            self.state.charge.obstacle = self._lease.obstacle(self.clocks.monotonic())
            self._answerable.set()

    @property
    def is_ready(self) -> bool:
        """Whether this replica may get requests (scheduler 8.4)."""
        return self.listed.is_set() and not (self.state.settings.readyz_follower_503 and self.state.charge.obstacle)

    async def wait_answerable(self) -> None:
        """Wait until a call can be answered: this process is in charge, or certainly not."""
        await self._answerable.wait()

    def note_listed(self) -> None:
        """Take that all lists are complete."""
        self._complete = True
        self.awaits_lists = False
        self.listed.set()
        self.check()

    def stop(self) -> None:
        """End all work: from now on calls end at once, waiting ones too, and no new write starts."""
        self._lease = None
        self._step_down(STOPPING)

    def observe(self, lease: Lease | None) -> None:
        """Take the lease as it is now."""
        if self._lease is not None:
            self._lease.observe(lease, self.clocks.monotonic())
            self.check()

    def check(self) -> None:
        """See whether time or news have changed anything."""
        now = self.clocks.monotonic()
        if self._lease is not None:
            self._follow(self._lease, now)
        if self.state.charge.obstacle or self.state.charge.since is not None or self.awaits_lists:
            return
        if self._has_to_list and self._is_settled(now):
            self._has_to_list, self._complete, self.awaits_lists = False, False, True
            self.list_anew()
        elif self._complete and not self._has_to_list:
            self._take_charge(now)

    def _is_settled(self, now: float) -> bool:
        """Whether a list that begins now shows all writes of the leader before.

        After the pause the API server has taken each of these writes or never will. A later renewal of our own lease
        has been stored, so etcd has stored them too. A replay sees no renewals.
        """
        settled_at = self._term_began + SETTLING_S
        is_stored = self._lease is not None and self._lease.renewed_at >= settled_at
        return now >= settled_at and (is_stored or not self._follows)

    def _take_charge(self, now: float) -> None:
        """Decide and write from now on: the lists show all that an earlier leader has written."""
        # A watch may be listing again by itself just now.
        self.state.cluster.catch_up()
        self.state.pod_scheduler.prepare()
        self._adopt_nominations()
        self.state.charge.since = now
        self._answerable.set()
        self.wake()
        # Capacity may have been freed while this process was not to requeue pods.
        self.state.waiting.capacity_freed.set()
        _log.info("in charge", **(asdict(self._term) if self._term else {}))

    def _adopt_nominations(self) -> None:
        known = list(self.state.nominations)
        adopt_nominations(self.state, self.clocks.unix)
        for ended in known:
            self.observer.on_nomination_ended(ended.uid)
        for nomination in self.state.nominations:
            self.observer.on_nominated(nomination)

    async def run(self, client: KubeClient) -> None:
        """Follow the lease until cancelled; without leader election there is none."""
        if self._lease is None:
            return
        self._follows = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(client))
            tasks.create_task(self.clocks.every(PERIOD_S, self.check))

    async def _watch(self, client: KubeClient) -> None:
        settings = self.state.settings
        name, namespace = settings.leader_elect_resource_name, settings.leader_elect_resource_namespace
        timing = ReflectorTiming(silence_s=SILENCE_S, ceiling_s=LOOK_AGAIN_S)
        async with aclosing(follow_object(client, LEASES, name, namespace=namespace, timing=timing)) as leases:
            async for lease in leases:
                self.observe(lease)
                self._tell_observer(lease)

    def _tell_observer(self, lease: Lease | None) -> None:
        if lease is None:
            self.observer.on_list(LEASES.kind, [])
        else:
            # Every few seconds: a list would be compared with all that is recorded.
            self.observer.on_change(LEASES.kind, lease)

    def _follow(self, lease: LeaseState, now: float) -> None:
        term = lease.term(now)
        if term is None:
            self._step_down(lease.obstacle(now))
        elif rival := self.rivals.obstacle():
            # The new lists then show what the other scheduler has written, as after a change of leaders.
            self._term = None
            self._step_down(rival)
        elif term != self._term:
            self._step_up(term, now)
        else:
            # Perhaps after renewals that came late: in the same term nobody else can have written meanwhile.
            self.state.charge.obstacle = ""

    def _step_up(self, term: Term, now: float) -> None:
        """Begin a term; nothing is decided before the lists show what the leader before has written."""
        _log.info(
            "leading, and waiting for what the leader before has written",
            holder=term.holder,
            transitions=term.transitions,
        )
        # What an earlier term decided is over; nothing stands in the way of this one but the lists.
        self._step_down("")
        # Who schedules anew tries all pods anew. In the same term, after a doubt, nobody does.
        self.state.waiting.clear()
        self.state.attempts.clear()
        self._term, self._term_began = term, now
        self._has_to_list, self.awaits_lists = True, False

    def _step_down(self, obstacle: str) -> None:
        """Decide and write nothing from now on, and end what was decided and not sent; ``obstacle`` says why."""
        if obstacle == self.state.charge.obstacle and self.state.charge.since is None:
            return
        if obstacle:
            _log.info("not in charge", why=obstacle)
        self.state.charge.obstacle = obstacle
        self.state.charge.since = None
        self._forget_assumed()
        if obstacle:
            self._answerable.set()
        else:
            self._answerable.clear()
        self.wake()

    def _forget_assumed(self) -> None:
        """End what was decided and not sent: whoever leads now decides anew. What was sent is settled first."""
        for reservation in list(self.state.cluster.ledger):
            if reservation.status is ReservationStatus.ASSUMED and reservation.uid not in self.state.binds.binding:
                self.state.release(reservation.uid)
