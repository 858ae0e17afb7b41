"""Bind: the lock, then one Binding that carries the decision (binding 1 and 2).

A pod is never bound without its cards and never carries cards unbound. Every Bind runs to its end in a task of its
own: a caller who hangs up ends the waiting, never a write that is under way.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from gpuloom.engine.decision.event_messages import describe_binding, describe_missing_node
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.allocations import read_decided_at, read_shares, reserve
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.unserved import UnservedPod
from gpuloom.kube import PODS, ApiError, EventRecorder, KubeClient, NotFoundError
from gpuloom.kube.annotations import patch_pod
from gpuloom.kube.podevents import record
from gpuloom.scheduler.bind.moving import MoveRefusedError, ReservationMover
from gpuloom.scheduler.bind.nodelock.locks import WRITES_AT_ONCE, LockError, NodeLocks
from gpuloom.scheduler.bind.nodelock.queue import LockTicket
from gpuloom.scheduler.bind.podlabel import PodLabeller
from gpuloom.scheduler.bind.writer import BindingWriter, BindRefusedError, LetOthers
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.filter.patch import annotate_decision
from gpuloom.scheduler.nodes.handler import read_cordoned
from gpuloom.scheduler.settling import SettledWork
from gpuloom.scheduler.state import SchedulerState
from gpuloom.vendors.profile import LockRules
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import BindArgs
from gpuloom.wire.keys import BIND_PHASE, BIND_TIME, PHASE_ALLOCATING, VGPU_NODE
from gpuloom.wire.objects import Pod


class BindError(Exception):
    """The pod was not bound; the message names pod and node and says why."""


class _NodeGoneError(BindError):
    """The node was deleted after it was chosen."""


@dataclass(slots=True)
class _Call:
    """One call of Bind, and whether somebody still waits for its answer."""

    args: BindArgs
    hung_up: bool = False


@dataclass(slots=True)
class BindVerb:
    """Binds pods. One call a reservation at a time; calls for different pods run side by side."""

    client: KubeClient
    state: SchedulerState
    locks: NodeLocks
    recorder: EventRecorder
    clocks: Clocks
    labeller: PodLabeller
    mover: ReservationMover
    _writer: BindingWriter = field(init=False)
    _writes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITES_AT_ONCE))
    _running: dict[str, int] = field(default_factory=dict)
    _calls: SettledWork[BindError | None] = field(default_factory=SettledWork)

    def __post_init__(self) -> None:
        self._writer = BindingWriter(self.client, self.state.shown, self.clocks)

    async def bind(self, args: BindArgs) -> None:
        """Bind a pod to the node that was decided for it.

        Raises BindError; kube-scheduler then starts again with a Filter. Cancelled, it stops waiting for a lock.
        """
        call = _Call(args)
        try:
            error = await self._calls.run(self._run(call), f"bind {args.podnamespace}/{args.podname}")
        except asyncio.CancelledError:
            call.hung_up = True
            self.locks.wake()
            raise
        if error is not None:
            raise error

    async def close(self) -> None:
        """Wait until the running Binds have ended, at most as long as a write may take."""
        await self._calls.close()

    async def _run(self, call: _Call) -> BindError | None:
        try:
            await self._bind(call)
        except BindError as error:
            return error
        return None

    async def _bind(self, call: _Call) -> None:
        args = call.args
        if not (args.poduid and args.podname and args.podnamespace and args.node):
            raise BindError("bind args must name pod, namespace, UID and node")
        if objection := self.state.charge.objection:
            raise BindError(objection)
        pod = await self._find_pod(args)
        # Finding it may have taken a while.
        if objection := self._find_objection_to_call(call):
            raise BindError(objection)
        if args.poduid in self.state.binds.binding:
            raise BindError(f"bind of pod {pod.full_name} in progress")
        self.state.groups.note_bind(pod)
        node = pod.spec.node_name or self.state.find_bound_node(args.poduid)
        if node == args.node:
            return
        if node:
            raise BindError(f"pod {pod.full_name} is already bound to node {node}")
        try:
            await self._bind_unbound(pod, call)
        except (BindError, LockError, BindRefusedError) as error:
            said = describe_missing_node(args.node) if isinstance(error, _NodeGoneError) else str(error)
            record(self.recorder, pod, "Warning", "BindingFailed", said)
            raise BindError(str(error)) from error
        # One event a pod, where the first was not written yet.
        self.recorder.withdraw(pod.metadata.uid, "FilteringSucceed")
        record(self.recorder, pod, "Normal", "BindingSucceed", describe_binding(args.node, pod.full_name))

    async def _bind_unbound(self, pod: Pod, call: _Call) -> None:
        node = call.args.node
        if not self.state.settings.asks_for_cards(pod):
            await self._writer.write(pod, node, {}, lambda: _raise_objection(self._find_objection_to_call(call)))
            return
        reservation = self._find_reservation(pod, node)
        if node not in self.state.shown.nodes:
            self.state.release(reservation.uid)
            raise _NodeGoneError(f'node "{node}" not found')
        uid, number = reservation.uid, reservation.number
        if self._running.get(uid) == number:
            raise BindError(f"bind of pod {pod.full_name} in progress")
        self._running[uid] = number
        try:
            await self._bind_reserved(pod, reservation, call)
        finally:
            if self._running.get(uid) == number:
                del self._running[uid]

    async def _bind_reserved(self, pod: Pod, reservation: Reservation, call: _Call) -> None:
        def objection() -> str:
            return self._find_objection(reservation, call)

        # Said as it is, not as the reason why a lock was not waited for.
        _raise_objection(objection())
        async with AsyncExitStack() as stack:
            locks = self._locks_for(reservation)
            for rules, vendors in locks:
                ticket = LockTicket(
                    reservation.node,
                    pod.namespace,
                    pod.name,
                    reservation.uid,
                    objection,
                    in_group=bool(pod.pod_group),
                    rules=rules,
                    vendors=vendors,
                )
                await stack.enter_async_context(self.locks.hold(ticket))
            async with AsyncExitStack() as slot:
                await slot.enter_async_context(self._writes)
                # Setting the lock took time, so what was checked before may have changed.
                _raise_objection(objection())
                # One that another has bound meanwhile may be served already: no later event would end it.
                if not self.state.shown.node_of(reservation.uid):
                    self.state.binds.unserved.begin(self._unserved(reservation, (rules.key for rules, _ in locks)))
                await self._write(pod, reservation, lambda: _raise_objection(objection()), slot.aclose)
        self.labeller.note(pod, reservation.node)

    def _locks_for(self, reservation: Reservation) -> list[tuple[LockRules, frozenset[str]]]:
        """Return the locks of the pod's vendors with the words of these, in one order for all pods.

        So no two Binds block each other.
        """
        found: dict[str, tuple[LockRules, frozenset[str]]] = {}
        for word in reservation.shares:
            profile = self.state.settings.catalog.find(word)
            if profile is not None and (key := profile.lock.key):
                _, words = found.get(key, (profile.lock, frozenset[str]()))
                found[key] = profile.lock, words | {word}
        return [found[key] for key in sorted(found)]

    def _unserved(self, reservation: Reservation, locks: Iterable[str]) -> UnservedPod:
        uid, namespace, name, node = reservation.uid, reservation.namespace, reservation.name, reservation.node
        return UnservedPod(uid, namespace, name, node, frozenset(locks), self.clocks.monotonic())

    async def _write(
        self, pod: Pod, reservation: Reservation, recheck: Callable[[], None], let_others: LetOthers
    ) -> None:
        ledger = self.state.cluster.ledger
        self.state.binds.binding.add(reservation.uid)
        is_inline = self.state.settings.filter_write == "inline"
        try:
            if is_inline:
                await self._write_bind_phase(pod, recheck)
            annotations = {} if is_inline else self._annotate(pod, reservation)
            await self._writer.write(pod, reservation.node, annotations, recheck, let_others)
        except (BindError, BindRefusedError) as error:
            self.state.binds.unserved.give_up(reservation.uid)
            if self._gives_back(reservation, error):
                self.state.release(reservation.uid)
            raise
        finally:
            self.state.binds.binding.discard(reservation.uid)
        if ledger.is_current(reservation):
            self.state.cluster.confirm(reservation.uid)
            shown = self.state.shown.pods.get(reservation.uid)
            self.state.binds.note_bound(reservation.uid, shown, self.clocks.monotonic())

    def _gives_back(self, reservation: Reservation, error: BindError | BindRefusedError) -> bool:
        """Tell whether a Bind that came to nothing ends what was reserved.

        Where the watch has shown another binding meanwhile, the entry follows that one.
        """
        held = self.state.cluster.ledger.find(reservation.uid)
        if held is None or not self.state.cluster.ledger.is_current(reservation):
            return False
        if not self.state.charge.is_ours:
            # What this process ceased to lead with is forgotten; what a Bind might have sent was left to that Bind.
            return held.status is ReservationStatus.ASSUMED
        # What Filter has written stays, and so does what it reserved.
        return isinstance(error, BindRefusedError) and self.state.settings.filter_write != "inline"

    def _find_objection(self, reservation: Reservation, call: _Call) -> str:
        """Why a Bind that has written nothing yet is to end, empty when it is not."""
        if objection := self._find_objection_to_call(call):
            return objection
        if reservation.uid in self.state.shown.gone:
            return f"pod {reservation.full_name} was deleted"
        if not self.state.cluster.ledger.is_current(reservation):
            return f"the reservation of pod {reservation.full_name} on node {reservation.node} was superseded"
        if card := self._find_cordoned(reservation):
            whom = f"pod {reservation.full_name}"
            return f"card {card} of node {reservation.node} was cordoned after it was chosen for {whom}, filter again"
        return ""

    def _find_cordoned(self, reservation: Reservation) -> str:
        """Return a card of a reservation that is cordoned by now: as the watch shows it, or the lock that was set."""
        shown = (read_cordoned(node) for node in self.locks.see(reservation.node))
        return self.state.cluster.find_cordoned(reservation, frozenset[str]().union(*shown))

    def _find_objection_to_call(self, call: _Call) -> str:
        """Why nothing may be written for a call any more, empty when it may."""
        if call.hung_up:
            return "kube-scheduler hung up"
        return self.state.charge.objection

    async def _find_pod(self, args: BindArgs) -> Pod:
        """Find the very pod that is to be bound, in the watch or by asking; a gone one gives back what it held."""
        known = self.state.shown.pods.get(args.poduid)
        if known is not None:
            return known
        try:
            pod = await self.client.get(PODS, args.podname, namespace=args.podnamespace)
        except NotFoundError as error:
            self.state.remove_pod(args.poduid, self.clocks.monotonic())
            raise BindError(f'pod "{args.podname}" not found') from error
        except ApiError as error:
            raise BindError(str(error)) from error
        if pod.metadata.uid != args.poduid:
            self.state.remove_pod(args.poduid, self.clocks.monotonic())
            raise BindError(f'pod "{args.podname}" not found: another pod has its name now')
        return pod

    def _find_reservation(self, pod: Pod, node: str) -> Reservation:
        held = self.state.cluster.ledger.find(pod.metadata.uid)
        if held is not None and held.node == node:
            return held
        if held is not None and self.state.settings.node_choice == "scheduler":
            return self._move(pod, held, node)
        if pod.annotations.get(VGPU_NODE) == node and (adopted := self._adopt(pod, node)):
            return adopted
        raise BindError(f"no reservation of pod {pod.full_name} on node {node}, filter again")

    def _move(self, pod: Pod, held: Reservation, node: str) -> Reservation:
        """Reserve on the node that kube-scheduler chose among those that Filter named."""
        if held.status is not ReservationStatus.ASSUMED:
            # Our Binding came about; the watch that shows the pod is late.
            raise BindError(f"pod {pod.full_name} is already bound to node {held.node}")
        if self._running.get(held.uid) == held.number:
            raise BindError(f"bind of pod {pod.full_name} in progress")
        if node not in self.state.shown.nodes:
            # That is for the caller to say: what the pod holds ends then.
            return held
        try:
            return self.mover.move(pod, held, node)
        except MoveRefusedError as error:
            raise BindError(str(error)) from error

    def _adopt(self, pod: Pod, node: str) -> Reservation | None:
        """Reserve what another scheduler wrote on the pod in its Filter, if the pod may have exactly these cards.

        They have to fit, within the quotas of its namespace and beside those for whom room is made: a pod that is not
        bound yet gets no more than a Filter here would give it.
        """
        try:
            shares = read_shares(pod, self.state.settings.catalog)
            demands = self.state.settings.read_demands(pod)
        except (WireError, PolicyError):
            return None
        reservation = reserve(
            pod,
            self.state.settings.catalog,
            node,
            shares,
            status=ReservationStatus.ASSUMED,
            since=self.clocks.monotonic(),
            decided_at=read_decided_at(pod) or self.clocks.unix,
        )
        if not self.state.decider.takes_over(demands, reservation, pod.priority):
            return None
        return self.state.cluster.assume(reservation)

    def _annotate(self, pod: Pod, reservation: Reservation) -> dict[str, str]:
        decided = annotate_decision(reservation, pod, self.state.settings.catalog)
        # A Binding cannot remove an annotation; an empty one counts as absent.
        return {key: value or "" for key, value in decided.items()} | self._bind_phase()

    def _bind_phase(self) -> dict[str, str]:
        return {BIND_PHASE: PHASE_ALLOCATING, BIND_TIME: str(self.clocks.unix)}

    async def _write_bind_phase(self, pod: Pod, recheck: Callable[[], None]) -> None:
        """Tell the device plugin that it is this pod's turn, where the Binding does not (scheduler 7.1 step 4)."""
        metadata = {"annotations": self._bind_phase()}
        try:
            await patch_pod(self.client, pod, {"metadata": metadata}, recheck)
        except ApiError as error:
            raise BindRefusedError(str(error)) from error


def _raise_objection(objection: str) -> None:
    if objection:
        raise BindError(objection)
