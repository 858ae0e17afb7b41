"""Counting pods as HAMi does: the annotation ``vgpu-node`` alone decides (``trust-annotations=true``, scheduler 4.6).

Only for clusters where nobody else may write that annotation: whoever can, holds capacity.
"""

from gpuloom.engine.request.demand import init_is_over
from gpuloom.engine.state.ledger import ReservationStatus
from gpuloom.model.share import ContainerShares
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import Pod


class PodHandlerByAnnotation(PodHandler):
    """A pod handler that does not ask whether a pod is bound, and gives back what ended init containers held.

    Later annotations of a counted pod change nothing.
    """

    def add(self, pod: Pod) -> None:
        """Take a pod that is said to be new: what it says now counts."""
        held = self._state.cluster.ledger.find(pod.metadata.uid)
        if held is not None and VGPU_NODE in pod.annotations and not (pod.is_over or pod.is_terminating):
            self._remember(pod)
            self._recount(pod)
            if held.init_over:
                self._state.cluster.end_init(pod.metadata.uid)
        else:
            self.apply(pod)

    def _place(self, pod: Pod, given: tuple[ContainerShares, ...]) -> tuple[ContainerShares, ...]:
        """Return a list as it was read: HAMi counts places from the first container."""
        del pod
        return given

    def apply(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        uid = pod.metadata.uid
        self._follow_any(pod)
        if not self._state.settings.concerns(pod):
            return
        if pod.is_over:
            self._end(pod)
            return
        self._remember(pod)
        if pod.spec.node_name:
            self._note_bound(uid)
        if VGPU_NODE not in pod.annotations:
            return
        self._state.waiting.drop(uid)
        held = self._state.cluster.ledger.find(uid)
        if held is None:
            self._recount(pod)
        elif held.status is ReservationStatus.ASSUMED and held.node == pod.annotations[VGPU_NODE]:
            self._state.cluster.confirm(uid)
        # A pod that is being deleted keeps all it has until it is gone.
        if held is not None and not pod.is_terminating and init_is_over(pod) and self._state.cluster.end_init(uid):
            self._state.waiting.capacity_freed.set()

    def _node_of(self, pod: Pod) -> str:
        return pod.annotations.get(VGPU_NODE, "")
