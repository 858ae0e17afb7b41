"""Bind: the lock, then one Binding that carries the decision (binding 1 and 2).

A pod is never bound without its cards and never carries cards unbound. Whether a write took effect is known, not
guessed: while it is not, lock and reservation stay and the API server is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from gpuloom.engine.demand import read_phases
from gpuloom.engine.exactness import fits_exactly
from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.kube import PODS, ApiError, ConflictError, EventRecorder, KubeClient, NotFoundError
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.locks import WRITE_DEADLINE_S, LockError, LockTicket, NodeLocks
from gpuloom.scheduler.podevents import record
from gpuloom.scheduler.pods import read_shares
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import BindArgs
from gpuloom.wire.keys import (
    BIND_PHASE,
    BIND_TIME,
    LABEL_VALUE_LIMIT,
    PHASE_ALLOCATING,
    VGPU_NODE,
    VGPU_TIME,
)
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import encode_shares

_SETTLE_FIRST_S = 0.1
_SETTLE_MOST_S = 4.0

_log = structlog.get_logger(__name__)


class BindError(Exception):
    """The pod was not bound; the message names pod and node and says why."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds pods. One call a pod at a time; calls for different pods run side by side."""

    client: KubeClient
    state: SchedulerState
    locks: NodeLocks
    recorder: EventRecorder
    clocks: Clocks

    async def bind(self, args: BindArgs) -> None:
        """Bind a pod to the node that was decided for it.

        Raises BindError; kube-scheduler then starts again with a Filter.
        """
        if args.poduid in self.state.binding:
            raise BindError(f"bind of pod {args.podnamespace}/{args.podname} in progress")
        pod = await self._find_pod(args)
        if pod.spec.node_name == args.node:
            return
        if pod.spec.node_name:
            raise BindError(f"pod {pod.full_name} is already bound to node {pod.spec.node_name}")
        try:
            await self._bind(pod, args.node)
        except BindError as error:
            record(self.recorder, pod, "Warning", "BindingFailed", str(error))
            raise
        message = f"Successfully binding node [{args.node}] to {pod.full_name}"
        record(self.recorder, pod, "Normal", "BindingSucceed", message)

    async def _bind(self, pod: Pod, node: str) -> None:
        if not self.state.read_demand(pod).wants_cards:
            await self._write(pod, node, {})
            return
        reservation = self._find_reservation(pod, node)
        ticket = LockTicket(
            node, pod.namespace, pod.name, reservation.uid, lambda: self.state.cluster.ledger.is_current(reservation)
        )
        try:
            await self.locks.acquire(ticket)
        except LockError as error:
            raise BindError(str(error)) from error
        try:
            await self._bind_locked(pod, reservation)
        except BindError:
            await self.locks.release(ticket)
            raise

    async def _bind_locked(self, pod: Pod, reservation: Reservation) -> None:
        if not self.state.cluster.ledger.is_current(reservation):
            raise BindError(f"the reservation of pod {pod.full_name} on node {reservation.node} was superseded")
        self.state.binding.add(reservation.uid)
        try:
            await self._write(pod, reservation.node, self._annotate(reservation))
        except BindError:
            self.state.release(reservation.uid)
            raise
        finally:
            self.state.binding.discard(reservation.uid)
        self.state.cluster.confirm(reservation.uid)

    async def _write(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Create the binding and make sure what came of it (2.1)."""
        labels = {VGPU_NODE: node} if annotations and len(node) <= LABEL_VALUE_LIMIT else {}
        try:
            await self.client.bind(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.metadata.uid,
                node=node,
                annotations=annotations,
                labels=labels,
                timeout_s=WRITE_DEADLINE_S,
            )
        except ApiError as error:
            # A conflict may be the echo of our own earlier write, whose reply was lost.
            is_open = error.outcome_unknown or isinstance(error, ConflictError)
            if not (is_open and await self._is_bound(pod, node)):
                raise BindError(str(error)) from error

    async def _is_bound(self, pod: Pod, node: str) -> bool:
        """Tell whether the pod is bound here, asking until the API server answers or the watch has shown it."""
        delay_s = _SETTLE_FIRST_S
        while True:
            try:
                now = await self.client.get(PODS, pod.name, namespace=pod.namespace)
            except NotFoundError:
                return False
            except ApiError as error:
                _log.warning("outcome of a binding is open", pod=pod.full_name, node=node, cause=str(error))
            else:
                return now.metadata.uid == pod.metadata.uid and now.spec.node_name == node
            await self.clocks.sleep(delay_s)
            delay_s = min(2 * delay_s, _SETTLE_MOST_S)
            shown = self.state.pods.get(pod.metadata.uid)
            if shown is not None and shown.spec.node_name:
                return shown.spec.node_name == node

    async def _find_pod(self, args: BindArgs) -> Pod:
        """Find the very pod that is to be bound, in the watch or by asking; a gone one gives back what it held."""
        known = self.state.pods.get(args.poduid)
        if known is not None:
            return known
        try:
            pod = await self.client.get(PODS, args.podname, namespace=args.podnamespace)
        except NotFoundError as error:
            self.state.bury(args.poduid, self.clocks.monotonic())
            raise BindError(f'pod "{args.podname}" not found') from error
        except ApiError as error:
            raise BindError(str(error)) from error
        if pod.metadata.uid != args.poduid:
            self.state.bury(args.poduid, self.clocks.monotonic())
            raise BindError(f'pod "{args.podname}" not found: another pod has its name now')
        return pod

    def _find_reservation(self, pod: Pod, node: str) -> Reservation:
        held = self.state.cluster.ledger.find(pod.metadata.uid)
        if held is not None and held.node == node:
            return held
        if pod.annotations.get(VGPU_NODE) == node and (adopted := self._adopt(pod, node)):
            return adopted
        raise BindError(f"no reservation of pod {pod.full_name} on node {node}, filter again")

    def _adopt(self, pod: Pod, node: str) -> Reservation | None:
        """Reserve what another scheduler wrote on the pod in its Filter, if exactly these cards still fit."""
        try:
            shares = read_shares(pod, self.state)
        except WireError:
            return None
        phases = read_phases(pod)
        if not fits_exactly(self.state.cluster.table, node, shares, phases):
            return None
        decided_at = pod.annotations.get(VGPU_TIME, "")
        return self.state.cluster.assume(
            Reservation(
                uid=pod.metadata.uid,
                namespace=pod.namespace,
                name=pod.name,
                node=node,
                shares=shares,
                phases=phases,
                standing=Standing.ASSUMED,
                since=self.clocks.monotonic(),
                decided_at=int(decided_at) if decided_at.isdecimal() else self.clocks.unix,
            )
        )

    def _annotate(self, reservation: Reservation) -> dict[str, str]:
        write = self.state.settings.profile.write
        shares = encode_shares(reservation.shares[self.state.settings.profile.word])
        return {
            VGPU_NODE: reservation.node,
            VGPU_TIME: str(reservation.decided_at),
            write.to_allocate: shares,
            write.allocated: shares,
            BIND_PHASE: PHASE_ALLOCATING,
            BIND_TIME: str(self.clocks.unix),
        }
