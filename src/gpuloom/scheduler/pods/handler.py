"""From the pod watch to reservations: who is counted, and what ends a reservation (binding 2.2).

Counted are pods that are bound to a node and whose ``vgpu-node`` names that node, and pods reserved here. An unbound
pod's annotations alone count nothing. What init containers held a pod keeps until it ends: its kubelet keeps their
devices, and runs them again after a reboot (decision 042).
"""

from collections.abc import Callable, Mapping

import structlog

from gpuloom.engine.state.allocations import read_decided_at, read_instances, read_shares, reserve
from gpuloom.engine.state.holdings import Holdings, Unread, read_holdings
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.kube import Unreadable
from gpuloom.model.share import ContainerShares, compact_shares, in_places, without_end
from gpuloom.scheduler.pods.foreign import ForeignPods
from gpuloom.scheduler.pods.trim import PodTrimmer
from gpuloom.scheduler.pods.unreadable import UnreadablePods
from gpuloom.scheduler.pods.watchdog import Watchdog
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.keys import WOKEN
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)


class PodHandler:
    """Applies what the API server says about pods.

    clock  monotonic seconds
    """

    def __init__(self, state: SchedulerState, clock: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self._reported_unreadable: set[str] = set()
        self._unlisted: set[str] = set()
        self._trimmer = PodTrimmer(state.settings.catalog)
        self._unreadable_pods = UnreadablePods(state)
        self._closes = state.settings.unreadable == "close"
        self.watchdog = Watchdog(state)
        self.foreign = ForeignPods(state.cluster)

    def begin_list(self) -> None:
        """Take that a complete list begins: pods known until now that do not stand in it are gone.

        What comes to be known while it is read is younger than the list, which says nothing about it. Where nobody
        decides before the list is complete, the tables may wait for it too.
        """
        if not self._state.charge.is_ours:
            self._state.cluster.postpone()
        self._unlisted = {one.uid for one in self._state.cluster.ledger if one.status is ReservationStatus.CONFIRMED}
        self._unlisted.update(
            self._state.shown.pods, (one.uid for one in self._state.binds.unserved), self._state.shown.plugins.uids()
        )
        self._unlisted.update(self._state.shown.mistyped.uids())
        self._state.shown.hosts.begin_list()

    def shorten(self, pod: HostPod) -> HostPod:
        """Return what is kept of a pod until all are listed, where they are taken at once."""
        return self._state.shown.size_limits.cut(pod)

    def take_listed(self, pod: Pod) -> None:
        """Take a pod that stands in the list."""
        self._unlisted.discard(pod.metadata.uid)
        self._state.shown.hosts.note_listed(pod.metadata.uid)
        self.apply(pod)

    def take_unreadable(self, found: Unreadable) -> None:
        """Take a pod that is there, in the list or changed, and cannot be read: it is not gone."""
        self._unlisted.discard(found.metadata.uid)
        self._state.shown.hosts.note_listed(found.metadata.uid)
        self._state.shown.plugins.forget(found.metadata.uid)
        if self._closes:
            self._unreadable_pods.follow_unreadable(found)

    def end_list(self) -> None:
        """Take that the list is complete."""
        for uid in self._unlisted:
            self._forget_any(uid)
            self._remove(uid)
        self._unlisted.clear()
        self._state.shown.hosts.end_list()
        self._state.cluster.catch_up()

    def delete(self, pod: Pod) -> None:
        """Take that a pod is gone; of an unreadable one only the metadata is known."""
        self._forget_any(pod.metadata.uid)
        if pod.spec.node_name or not pod.containers:
            self._state.shown.hosts.delete(pod.metadata.uid, pod.spec.node_name)
        if pod.metadata.uid in self._state.shown.pods or not pod.containers or self._state.settings.concerns(pod):
            self._remove(pod.metadata.uid)

    def add(self, pod: Pod) -> None:
        """Take a pod that is said to be new."""
        self.apply(pod)

    def apply(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        uid = pod.metadata.uid
        self._follow_any(pod)
        if uid not in self._state.shown.pods:
            self._state.shown.mistyped.note_new(pod)
        if not self._state.settings.concerns(pod):
            self._state.shown.mistyped.follow(pod)
            # Perhaps this was not known before.
            self._state.reopen(uid)
            self._state.binds.unserved.end(uid)
            return
        self._state.shown.mistyped.drop(uid)
        if pod.is_over or (pod.is_terminating and not pod.spec.node_name):
            self._end(pod)
            return
        self._remember(pod)
        if pod.spec.node_name:
            self._note_bound(uid)
            self._follow_binding(pod)

    def _note_bound(self, uid: str) -> None:
        """Take that a pod waits no more, and needs no room."""
        self._state.waiting.drop(uid)
        self._state.attempts.drop(uid)
        self._state.nominations.end(uid, "bound")
        self._state.promised.forget(uid)

    def _end(self, pod: Pod) -> None:
        """Take that a pod is over, or will never be bound."""
        # Whoever else says that a pod is over does not know whether its kubelet is asking for its devices right now.
        if pod.is_over and pod.status.start_time is not None:
            self._state.binds.unserved.end(pod.metadata.uid)
        self._remove(pod.metadata.uid)

    def _follow_any(self, pod: Pod) -> None:
        """Take of any pod, whether it asks for cards or not, what matters of it.

        That is whether it is a device plugin's, and what it requests of its node beside cards, which recordings do not
        tell.
        """
        self._state.shown.plugins.follow(pod)
        if isinstance(pod, HostPod):
            self._state.shown.hosts.apply(pod)

    def _forget_any(self, uid: str) -> None:
        """Take that a pod is gone, whether it asked for cards or not."""
        self._state.shown.plugins.forget(uid)
        self._state.shown.mistyped.drop(uid)

    def _remember(self, pod: Pod) -> None:
        """Keep a pod as far as it is read later: a bound one trimmed, one that waits whole unless it is very large."""
        self.watchdog.check(pod)
        if pod.is_terminating:
            self._state.shown.terminating.setdefault(pod.metadata.uid, self._clock())
        if pod.spec.node_name:
            self._state.shown.pods[pod.metadata.uid] = self._trimmer.trim(pod)
            if self._state.settings.preemption == "on":
                self._state.shown.victim_labels[pod.metadata.uid] = self._state.shown.size_limits.cut(pod).labels
            self._state.binds.follow(pod, self._clock())
        else:
            self._follow_waking(pod)
            self._state.shown.pods[pod.metadata.uid] = self._state.shown.size_limits.cut(pod)
            self._state.promised.follow(pod, self._clock())

    def _follow_waking(self, pod: Pod) -> None:
        """Take that a pod of a group was woken, by this process or, in a replay, by the recorded one."""
        known = self._state.shown.pods.get(pod.metadata.uid)
        if pod.own_group and known is not None and known.annotations.get(WOKEN) != pod.annotations.get(WOKEN):
            self._state.groups.note_woken(pod)

    def _remove(self, uid: str) -> None:
        self._reported_unreadable.discard(uid)
        self._state.remove_pod(uid, self._clock())

    def _follow_binding(self, pod: Pod) -> None:
        """Count a bound pod on its node. What a counted pod's annotations say later changes nothing (scheduler 4.6)."""
        held = self._state.cluster.ledger.find(pod.metadata.uid)
        if held is None:
            self._count(pod)
        elif held.node != pod.spec.node_name:
            self._recount(pod)
        elif held.status is ReservationStatus.ASSUMED:
            self._confirm(pod, held)

    def _node_of(self, pod: Pod) -> str:
        """Tell on which node a pod's shares count, empty when on none."""
        return pod.node_of_cards

    def _confirm(self, pod: Pod, held: Reservation) -> None:
        """Take that a pod is bound where it was reserved; another scheduler may have given it other cards."""
        found, unread = self._read_reservation(pod)
        if found is None or unread or found.usage_by_vendor() == held.usage_by_vendor():
            # What was decided here is known, whatever has become of its annotations.
            self._state.cluster.confirm(held.uid)
        else:
            _log.warning("pod was bound with other cards than reserved here", pod=pod.full_name, node=held.node)
            self._recount(pod)

    def _recount(self, pod: Pod) -> None:
        self._state.release(pod.metadata.uid)
        self._count(pod)

    def _count(self, pod: Pod) -> None:
        if self._closes and self.foreign.follow(pod):
            return
        found, unread = self._read_reservation(pod)
        if found is not None:
            self._state.cluster.assume(found)
        self._unreadable_pods.follow(pod, unread)

    def _read_reservation(self, pod: Pod) -> tuple[Reservation | None, Mapping[str, Unread]]:
        """Read what a pod that is bound already holds, None when there is nothing to count, and what cannot be read."""
        node = self._node_of(pod)
        if not node:
            return None, {}
        holdings = self._read_holdings(pod, node)
        if not holdings.counts:
            return None, holdings.unread
        shares = {vendor: without_end(self._place(pod, given)) for vendor, given in holdings.shares.items()}
        catalog = self._state.settings.catalog
        reservation = reserve(
            pod,
            catalog,
            node,
            compact_shares(shares),
            status=ReservationStatus.CONFIRMED,
            since=0.0,
            decided_at=read_decided_at(pod),
            instances=read_instances(pod, catalog),
        )
        return reservation, holdings.unread

    def _place(self, pod: Pod, given: tuple[ContainerShares, ...]) -> tuple[ContainerShares, ...]:
        """Return a list as it was read with a place for each container."""
        return in_places(given, len(pod.all_containers))

    def _read_holdings(self, pod: Pod, node: str) -> Holdings:
        """Read what a pod was given; as in HAMi nothing of it where anything of it cannot be read, if so set."""
        catalog = self._state.settings.catalog
        if self._closes:
            return read_holdings(pod, catalog)
        try:
            return Holdings(read_shares(pod, catalog))
        except WireError as error:
            if pod.metadata.uid not in self._reported_unreadable:
                self._reported_unreadable.add(pod.metadata.uid)
                _log.error(
                    "a pod's device annotation cannot be read: its cards are not counted",
                    pod=pod.full_name,
                    node=node,
                    cause=str(error),
                )
            return Holdings({}, counts=False)
