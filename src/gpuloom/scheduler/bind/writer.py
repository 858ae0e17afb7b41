"""Writing a binding and finding out what came of it (binding 2.1).

Whether a write took effect is known, not guessed: while it is not, the API server is asked until it answers, unless the
watch shows it first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from gpuloom.kube import PODS, WRITE_DEADLINE_S, ApiError, ConflictError, KubeClient, NotFoundError
from gpuloom.scheduler.bind.podlabel import label_of
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 4.0

_log = structlog.get_logger(__name__)


class BindRefusedError(Exception):
    """The pod is certainly not bound to the node; the message is the API server's."""


@dataclass(frozen=True, slots=True)
class BindingWriter:
    """Creates bindings."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks

    async def write(self, pod: Pod, node: str, annotations: Mapping[str, str], recheck: Callable[[], None]) -> None:
        """Bind a pod, with these annotations in the same step; returns when it is certainly bound.

        ``recheck`` is called right before anything is sent. Raises what it raises, and BindRefusedError when the pod is
        certainly not bound.
        """
        try:
            await self.client.bind(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.metadata.uid,
                node=node,
                annotations=annotations,
                labels=label_of(node) if annotations else {},
                timeout_s=WRITE_DEADLINE_S,
                recheck=recheck,
            )
        except ApiError as error:
            # A conflict may come from our own earlier write, whose reply was lost.
            is_open = error.outcome_unknown or isinstance(error, ConflictError)
            if not (is_open and await self._is_bound(pod, node)):
                raise BindRefusedError(str(error)) from error

    async def _is_bound(self, pod: Pod, node: str) -> bool:
        uid, pause_s = pod.metadata.uid, _FIRST_PAUSE_S
        while True:
            try:
                now = await self.client.get(PODS, pod.name, namespace=pod.namespace, timeout_s=WRITE_DEADLINE_S)
            except NotFoundError:
                return False
            except ApiError as error:
                _log.warning("outcome of a binding is open", pod=pod.full_name, node=node, cause=str(error))
            else:
                return now.metadata.uid == uid and now.spec.node_name == node
            await self.clocks.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if uid in self.state.gone:
                return False
            shown = self.state.pods.get(uid)
            if shown is not None and shown.spec.node_name:
                return shown.spec.node_name == node
