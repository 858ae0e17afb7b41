"""Writing a binding and finding out what came of it (binding 2.1).

Whether a write took effect is known, not guessed: while it is not, the API server is asked until it answers, unless the
watch shows it first. That a pod is not bound is believed only when a write that nobody waits for any more must have
arrived.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from gpuloom.kube import (
    PODS,
    WRITE_DEADLINE_S,
    ApiError,
    ConflictError,
    KubeClient,
    NotFoundError,
    TooManyRequestsError,
)
from gpuloom.scheduler.bind.podlabel import label_of
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.gate import SETTLING_S
from gpuloom.scheduler.watch.shown import ShownObjects
from gpuloom.wire.objects import Pod

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 4.0

_log = structlog.get_logger(__name__)


LetOthers = Callable[[], Awaitable[None]]
"""Lets others write, of whom only so many do at once."""


async def _let_nobody() -> None:
    pass


class BindRefusedError(Exception):
    """The pod is certainly not bound to the node; the message is the API server's."""


@dataclass(frozen=True, slots=True)
class BindingWriter:
    """Creates bindings."""

    client: KubeClient
    shown: ShownObjects
    clocks: Clocks

    async def write(
        self,
        pod: Pod,
        node: str,
        annotations: Mapping[str, str],
        recheck: Callable[[], None],
        let_others: LetOthers = _let_nobody,
    ) -> None:
        """Bind a pod, with these annotations in the same step; returns when it is certainly bound.

        ``recheck`` is called right before anything is sent, ``let_others`` when nothing more is and the outcome is not
        known yet. Raises what ``recheck`` raises, and BindRefusedError when the pod is certainly not bound.
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
            # A conflict may come from our own earlier write, whose reply was lost. After these two none is under way.
            is_refused = isinstance(error, ConflictError | TooManyRequestsError)
            is_open = error.outcome_unknown or is_refused
            if is_open:
                await let_others()
            if not (is_open and await self._is_bound(pod, node, 0.0 if is_refused else SETTLING_S)):
                raise BindRefusedError(str(error)) from error

    async def _is_bound(self, pod: Pod, node: str, settling_s: float) -> bool:
        """Find out whether a pod is bound to a node, as it is after so many seconds if it is not bound before."""
        uid, pause_s = pod.metadata.uid, _FIRST_PAUSE_S
        settled_at = self.clocks.monotonic() + settling_s
        while True:
            is_settled = self.clocks.monotonic() >= settled_at
            try:
                now = await self.client.get(PODS, pod.name, namespace=pod.namespace, timeout_s=WRITE_DEADLINE_S)
            except NotFoundError:
                return False
            except ApiError as error:
                _log.warning("outcome of a binding is open", pod=pod.full_name, node=node, cause=str(error))
            else:
                if now.metadata.uid != uid or now.spec.node_name or is_settled:
                    return now.metadata.uid == uid and now.spec.node_name == node
            await self.clocks.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if uid in self.shown.gone:
                return False
            if shown := self.shown.node_of(uid):
                return shown == node
