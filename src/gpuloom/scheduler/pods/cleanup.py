"""Ends reservations without a pod or without a Bind, and removes locks without a Bind (binding 2.2, 3)."""

from dataclasses import dataclass

import structlog

from gpuloom.engine.state.ledger import Reservation
from gpuloom.kube import PODS, WRITE_DEADLINE_S, ApiError, KubeClient, NotFoundError
from gpuloom.scheduler.bind.nodelock.locks import NodeLocks
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.observer import ProcessObserver
from gpuloom.scheduler.sidebyside import do_side_by_side
from gpuloom.scheduler.state import SchedulerState

PERIOD_S = 1.0
UNSEEN_LIMIT_S = 2.0
"""A pod that the watch has not shown so long after its Filter is asked for."""
UNSEEN_WAITING_LIMIT_S = 60.0
"""A refused pod that the watch has not shown for so long waits no more: perhaps somebody has invented it."""
UNBOUND_LIMIT_S = 900.0
"""A reservation without Bind ends after this; binding volumes may take ten minutes."""
GONE_MEMORY_S = 900.0
"""So long a deleted pod's UID is remembered and refused."""

QUESTIONS_AT_ONCE = 8
"""After a fail-over very many may have to be asked about, and each answer takes its time."""

EXPIRED = "expired"
GONE = "gone"
"""Why a reservation was ended, for an observer."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ReservationCleanup:
    """Ends what the watch alone would leave behind. ``expired`` counts reservations whose Bind never came."""

    client: KubeClient
    state: SchedulerState
    locks: NodeLocks
    clocks: Clocks
    observer: ProcessObserver | None = None
    expired: int = 0

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.clocks.sleep(PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Look once at every pod that is not seen bound yet, at every unschedulable one, and at every lock."""
        now = self.clocks.monotonic()
        self._forget_old(now)
        if not self.state.charge.is_ours:
            return
        unseen = [one for one in self.state.cluster.ledger.assumed() if self._is_unseen(one, now)]
        await do_side_by_side(unseen, self._check_unseen, at_once=QUESTIONS_AT_ONCE)
        for one in self.state.cluster.ledger.assumed():
            if now - one.since > UNBOUND_LIMIT_S and self._is_undone(one):
                self._expire(one)
        await do_side_by_side(self._find_unshown(now), self._check_unshown, at_once=QUESTIONS_AT_ONCE)
        await self.locks.sweep()

    def _forget_old(self, now: float) -> None:
        self.state.binds.unserved.forget_gone(now)
        for uid, since in list(self.state.shown.gone.items()):
            if now - since > GONE_MEMORY_S:
                del self.state.shown.gone[uid]
        waiting = self.state.waiting
        refused = [(uid, one.since) for uid, one in waiting.unschedulable.items()]
        for uid, since in (*refused, *waiting.woken_since.items()):
            if uid not in self.state.shown.pods and now - since > UNSEEN_WAITING_LIMIT_S:
                waiting.drop(uid)

    def _is_unseen(self, reservation: Reservation, now: float) -> bool:
        is_due = UNSEEN_LIMIT_S < now - reservation.since <= UNBOUND_LIMIT_S
        return is_due and reservation.uid not in self.state.shown.pods

    async def _check_unseen(self, reservation: Reservation) -> None:
        """Ask for a pod that was reserved for and that no watch has shown."""
        # While others were asked about, this one may have been settled, and so it may while it is asked about itself.
        if self._is_undone(reservation) and await self._is_gone(reservation) and self._is_undone(reservation):
            _log.warning("reservation ends: there is no such pod", pod=reservation.full_name, node=reservation.node)
            self.state.remove_pod(reservation.uid, self.clocks.monotonic())
            self._tell_observer(reservation, GONE)

    def _expire(self, reservation: Reservation) -> None:
        _log.warning("reservation ends: no Bind came", pod=reservation.full_name, node=reservation.node)
        self.expired += 1
        self.state.release(reservation.uid)
        self._tell_observer(reservation, EXPIRED)

    def _find_unshown(self, now: float) -> list[str]:
        """Return the pods that were bound here a while ago and that no watch has shown; forget those that one has.

        One that came, was bound and went while a list was on its way stands in no list, and no watch tells of it.
        """
        unshown = self.state.binds.unshown
        for uid in list(unshown):
            if uid in self.state.shown.pods or self.state.cluster.ledger.find(uid) is None:
                del unshown[uid]
        return [uid for uid, since in unshown.items() if now - since > UNSEEN_LIMIT_S]

    async def _check_unshown(self, uid: str) -> None:
        """Ask for a pod that was bound here and that no watch has shown."""
        held = self.state.cluster.ledger.find(uid)
        if held is None:
            return
        is_gone, now = await self._is_gone(held), self.clocks.monotonic()
        if uid not in self.state.binds.unshown or uid in self.state.shown.pods:
            return
        self.state.binds.unshown[uid] = now
        if is_gone:
            _log.warning("reservation ends: its pod is gone", pod=held.full_name, node=held.node)
            self.state.remove_pod(uid, now)
            self._tell_observer(held, GONE)

    def _is_undone(self, reservation: Reservation) -> bool:
        """Whether this very reservation still stands and no Bind of it writes: asking about others takes a while."""
        uid = reservation.uid
        return self.state.cluster.ledger.find(uid) is reservation and uid not in self.state.binds.binding

    def _tell_observer(self, reservation: Reservation, why: str) -> None:
        if self.observer is not None:
            self.observer.on_forgotten(reservation.uid, why)

    async def _is_gone(self, reservation: Reservation) -> bool:
        try:
            pod = await self.client.get(
                PODS, reservation.name, namespace=reservation.namespace, timeout_s=WRITE_DEADLINE_S
            )
        except NotFoundError:
            return True
        except ApiError:
            return False
        return pod.metadata.uid != reservation.uid
