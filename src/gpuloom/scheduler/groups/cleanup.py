"""Gives back what groups hold that were not placed (binding 2.2)."""

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.groups.attempts import GroupAttempt
from gpuloom.scheduler.observer import ProcessObserver
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.hostpods import HostPod

PERIOD_S = 0.25
SAID_S = 0.5
"""So long nobody of a group was filtered or bound after which it is over, once kube-scheduler has said so anew."""
UNSAID_S = 2.0
"""The same where it said already after an earlier attempt what it would say: it writes a condition only if it changed.

Binds of a group that was placed come within milliseconds; those that come later were announced by a nominated node.
"""
GROUP = "group"
"""Why a reservation was ended, for an observer."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupCleanup:
    """Ends the reservations of members whose group failed."""

    state: SchedulerState
    clocks: Clocks
    observer: ProcessObserver | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.clocks.sleep(PERIOD_S)
            await self._check()

    async def _check(self) -> None:
        """Look once at every reservation of a group that is not bound yet."""
        # Very many members may wait.
        await TimeSlice().finish(self.state.groups.keep(self._is_waiting))
        if not (len(self.state.groups) and self.state.charge.is_ours):
            return
        for held in list(self._find_failed(self.clocks.monotonic())):
            _log.info("reservation ends: its group was not placed", pod=held.full_name, node=held.node)
            self.state.groups.note_given_back(self.state.shown.pods[held.uid])
            self.state.release(held.uid)
            if self.observer is not None:
                self.observer.on_forgotten(held.uid, GROUP)

    def _is_waiting(self, uid: str) -> bool:
        held = self.state.cluster.ledger.find(uid)
        if held is not None:
            return held.status is ReservationStatus.ASSUMED
        pod = self.state.shown.pods.get(uid)
        return pod is not None and not pod.spec.node_name

    def _find_failed(self, now: float) -> Iterator[Reservation]:
        """Give what members hold whose group failed: kube-scheduler has said so, and nobody binds any of them."""
        for held in self.state.cluster.ledger.assumed():
            pod = self.state.shown.pods.get(held.uid)
            if not isinstance(pod, HostPod) or held.uid in self.state.binds.binding:
                continue
            attempt = self.state.groups.find(pod)
            if attempt is not None and _has_failed(attempt, pod, held, now):
                yield held


def _has_failed(attempt: GroupAttempt, pod: HostPod, held: Reservation, now: float) -> bool:
    """Tell whether a member's group could not be placed as a whole, so that what it holds is given back."""
    if attempt.is_binding or held.uid in attempt.called or not pod.is_unschedulable:
        return False
    # kube-scheduler names the node before it waits for volumes or claims, and takes the name back when it gives up.
    if pod.status.nominated_node_name == held.node:
        return False
    is_said_anew = pod.last_words != attempt.words.get(held.uid, pod.last_words)
    return now - attempt.filtered_at >= (SAID_S if is_said_anew else UNSAID_S)
