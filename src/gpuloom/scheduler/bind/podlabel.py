"""The label that says on which node a pod's cards are (binding 1).

The Binding carries it, but most API servers do not copy a Binding's labels to the pod. Then it is set here, after more
urgent work: HAMi's monitor reads it, gpuloom never does.
"""

from dataclasses import dataclass, field

import structlog

from gpuloom.kube import ApiError, KubeClient
from gpuloom.kube.annotations import patch_pod
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import LABEL_VALUE_LIMIT, VGPU_NODE
from gpuloom.wire.objects import Pod

PERIOD_S = 1.0
MOST_PENDING = 10_000
"""More pods than this do not wait for their label."""
BUSY_S = 2.0
"""So long after a bind more of them are to be expected."""
MOST_WHEN_BUSY = 10
"""So many labels a second are written while pods are bound; the others wait until nothing more urgent is to do."""

_log = structlog.get_logger(__name__)


def label_of(node: str) -> dict[str, str]:
    """Return the label of a pod with cards on this node, nothing when the name is too long for one."""
    return {VGPU_NODE: node} if len(node) <= LABEL_VALUE_LIMIT else {}


@dataclass(slots=True)
class PodLabeller:
    """Sets the labels that the API server did not copy. ``dropped`` counts pods that stay without, ours or not."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks
    dropped: int = 0
    _pending: dict[str, str] = field(default_factory=dict)
    _noted: float = float("-inf")

    def note(self, pod: Pod, node: str) -> None:
        """Note that a pod was bound; its label is looked at when the watch shows it bound."""
        if not self.state.settings.pod_label or not label_of(node):
            return
        self._noted = self.clocks.monotonic()
        if len(self._pending) >= MOST_PENDING:
            self.dropped += 1
        else:
            self._pending[pod.metadata.uid] = node

    async def run(self) -> None:
        """Label until cancelled."""
        await self.clocks.every(PERIOD_S, self.label)

    async def label(self) -> None:
        """Label the pods that the watch has shown bound, few of them while others are being bound."""
        for looked_at, (uid, node) in enumerate(list(self._pending.items())):
            if looked_at >= MOST_WHEN_BUSY and self._is_busy():
                return
            pod = self.state.shown.pods.get(uid)
            if uid in self.state.binds.unshown if pod is None else not pod.spec.node_name:
                continue
            del self._pending[uid]
            if pod is not None and VGPU_NODE not in pod.labels and not self.state.charge.obstacle:
                await self._patch(pod, node)

    def _is_busy(self) -> bool:
        return self.clocks.monotonic() - self._noted < BUSY_S

    async def _patch(self, pod: Pod, node: str) -> None:
        body = {"metadata": {"labels": label_of(node)}}
        try:
            await patch_pod(self.client, pod, body, self.state.charge.check)
        except StoppedError:
            self.dropped += 1
        except ApiError as error:
            self.dropped += 1
            _log.info("pod stays without its node label", pod=pod.full_name, cause=str(error))
