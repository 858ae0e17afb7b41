"""What the pod watch shows and should not: logged once a pod, counted for metrics (binding 5 and 6)."""

from dataclasses import replace

import structlog

from gpuloom.scheduler.admission.review import needs_completion
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)


class Watchdog:
    """Counts pods that no webhook has completed, and bindings that another scheduler has made with our annotations."""

    def __init__(self, state: SchedulerState) -> None:
        self.unmutated = 0
        self.foreign_bindings = 0
        self._state = state
        # Removed keys and a quota that was used up meanwhile do not show that the webhook was not asked.
        self._settings = replace(state.settings, strip_owned_keys=False, admission_quota=False)

    def check(self, pod: Pod) -> None:
        """Look at a pod before it is remembered."""
        known = self._state.shown.pods.get(pod.metadata.uid)
        if known is None and not pod.spec.node_name:
            self._check_new(pod)
        elif pod.spec.node_name and not (known and known.spec.node_name):
            self._check_bound(pod)

    def _check_new(self, pod: Pod) -> None:
        if needs_completion(pod, self._settings):
            self.unmutated += 1
            _log.warning("a pod with cards came without the webhook's changes", pod=pod.full_name)

    def _check_bound(self, pod: Pod) -> None:
        if not self._state.charge.is_ours or VGPU_NODE not in pod.annotations:
            return
        held = self._state.cluster.ledger.find(pod.metadata.uid)
        if held is None or held.node != pod.spec.node_name:
            self.foreign_bindings += 1
            _log.warning(
                "another scheduler has given a pod cards: only one may decide",
                pod=pod.full_name,
                node=pod.spec.node_name,
            )
