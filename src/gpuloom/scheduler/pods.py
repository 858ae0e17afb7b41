"""From the pod watch to reservations: who is counted, and what ends a reservation (binding 2.2).

Counted are pods that are bound to a node and whose ``vgpu-node`` names that node, and pods reserved here. An unbound
pod's annotations alone count nothing.
"""

from collections.abc import Callable, Iterable

import structlog

from gpuloom.engine.demand import read_phases
from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.model.share import PodShares
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares

_log = structlog.get_logger(__name__)


class PodBook:
    """Applies what the API server says about pods.

    clock  monotonic seconds
    """

    def __init__(self, state: SchedulerState, clock: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self._unreadable: set[str] = set()

    def replace(self, pods: Iterable[Pod]) -> None:
        """Take a complete list: pods that are not in it are gone."""
        listed = {pod.metadata.uid: pod for pod in pods}
        for uid, known in list(self._state.pods.items()):
            if uid not in listed:
                self.delete(known)
        for reservation in list(self._state.cluster.ledger):
            if reservation.standing is Standing.CONFIRMED and reservation.uid not in listed:
                self._bury(reservation.uid)
        for pod in listed.values():
            self.apply(pod)

    def delete(self, pod: Pod) -> None:
        """Take that a pod is gone."""
        self._unreadable.discard(pod.metadata.uid)
        self._bury(pod.metadata.uid)

    def apply(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        uid = pod.metadata.uid
        if pod.is_over or (pod.is_terminating and not pod.spec.node_name):
            self._bury(uid)
            return
        if not self._concerns_us(pod):
            return
        self._state.pods[uid] = pod
        if pod.spec.node_name:
            self._state.refused.pop(uid, None)
            self._follow_binding(pod)

    def _concerns_us(self, pod: Pod) -> bool:
        return VGPU_NODE in pod.annotations or self._state.read_demand(pod).wants_cards

    def _bury(self, uid: str) -> None:
        self._state.bury(uid, self._clock())

    def _follow_binding(self, pod: Pod) -> None:
        """Count a bound pod on its node, whatever was reserved before."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        held = self._state.cluster.ledger.find(uid)
        if held is None or held.node != node:
            self._state.release(uid)
            shares = self._read_shares(pod) if pod.annotations.get(VGPU_NODE) == node else None
            if shares is None:
                return
            self._state.cluster.assume(reserve_bound(pod, shares, self._clock()))
        elif held.standing is Standing.ASSUMED:
            self._state.cluster.confirm(uid)
        if _init_is_over(pod) and self._state.cluster.end_init(uid):
            self._state.room.set()

    def _read_shares(self, pod: Pod) -> PodShares | None:
        try:
            return read_shares(pod, self._state)
        except WireError as error:
            if pod.metadata.uid not in self._unreadable:
                self._unreadable.add(pod.metadata.uid)
                _log.error(
                    "pod is bound, but its device annotation cannot be read: its cards are not counted",
                    pod=pod.full_name,
                    node=pod.spec.node_name,
                    cause=str(error),
                )
            return None


def read_shares(pod: Pod, state: SchedulerState) -> PodShares:
    """Read what the pod's annotations say it was given.

    Raises WireError when they cannot be read.
    """
    profile = state.settings.profile
    text = pod.annotations.get(profile.write.allocated)
    return {} if text is None else {profile.word: decode_shares(text)}


def reserve_bound(pod: Pod, shares: PodShares, now: float) -> Reservation:
    """Make the reservation of a pod that is bound already."""
    return Reservation(
        uid=pod.metadata.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.spec.node_name,
        shares=shares,
        phases=read_phases(pod),
        standing=Standing.CONFIRMED,
        since=now,
    )


def _init_is_over(pod: Pod) -> bool:
    """Whether all init containers but sidecars have ended well."""
    sidecars = {container.name for container in pod.init_containers if container.is_sidecar}
    statuses = [s for s in pod.status.init_container_statuses or [] if s.name not in sidecars]
    waited_for = len(pod.init_containers) - len(sidecars)
    return 0 < waited_for <= len(statuses) and all(
        status.state and status.state.terminated and status.state.terminated.exit_code == 0 for status in statuses
    )
