"""Asking victims to leave: by the Eviction API, or past a budget where a plan knowingly breaks one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import structlog

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import (
    PODS,
    WRITE_DEADLINE_S,
    ApiError,
    ConflictError,
    EventRecorder,
    InvalidError,
    KubeClient,
    NotFoundError,
    TooManyRequestsError,
)
from gpuloom.kube.eviction import POLL_S, evict, is_going
from gpuloom.kube.recorder import Subject
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.gate import SETTLING_S
from gpuloom.scheduler.preemption.counts import PreemptionCounts
from gpuloom.scheduler.settling import CLOSING_S, SettledWork
from gpuloom.scheduler.watch.shown import ShownObjects
from gpuloom.wire.words import encode_time

MOST_EVICTED = 1024
UNANSWERED_S = 60.0
"""So long after an eviction without an answer a pod that leaves is taken to leave because of it."""
_PAUSES_S = (0.1, 0.5, 2.0)
_log = structlog.get_logger(__name__)


class EvictionOutcome(Enum):
    """What became of a victim; gone are also those that were asked before."""

    LEAVES = "leaves"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UnansweredEviction:
    """A pod that was asked to leave, for whom, and when (monotonic seconds)."""

    held: Reservation
    nomination: Nomination
    asked_at: float


@dataclass(slots=True)
class Evictor:
    """Evicts pods, none of them twice; a request that was sent is settled, whoever stops waiting for it.

    evicted     UIDs of those that were asked and leave, oldest first
    unanswered  by UID those that were asked, and it is not known whether they leave
    """

    client: KubeClient
    shown: ShownObjects
    recorder: EventRecorder
    clocks: Clocks
    counts: PreemptionCounts
    evicted: FifoDict[str, None] = field(default_factory=lambda: FifoDict(MOST_EVICTED))
    unanswered: FifoDict[str, UnansweredEviction] = field(default_factory=lambda: FifoDict(MOST_EVICTED))
    _asking: SettledWork[EvictionOutcome] = field(default_factory=SettledWork)

    async def evict(
        self, victim: PotentialVictim, nomination: Nomination, recheck: Callable[[], None], *, may_break: bool = False
    ) -> EvictionOutcome:
        """Ask a pod to leave; with ``may_break`` it is deleted if its budgets forbid that.

        ``recheck`` is called right before each write. Raises what it raises.
        """
        if victim.uid in self.evicted:
            return EvictionOutcome.GONE
        outcome = EvictionOutcome.FORBIDDEN
        # Of several budgets the Eviction API knows no answer.
        held = victim.reservation
        if not (may_break and len(victim.budgets) > 1):
            outcome = await self._ask(partial(self._evict, held, nomination, recheck), held, nomination)
        if outcome is EvictionOutcome.FORBIDDEN and may_break:
            outcome = await self._ask(partial(self._delete, held, nomination, recheck), held, nomination)
        return outcome

    async def close(self) -> None:
        """Settle what was sent, and find out of all without an answer whether they leave; as long as a write may take.

        Both at once: an answer may take all of that time.
        """
        await asyncio.gather(self._asking.close(), self._find_out_all())

    async def note_leaving(self) -> None:
        """Say why of those who leave, though their evictions were not answered."""
        seen_leaving: list[Awaitable[None]] = []
        for uid, asked in list(self.unanswered.items()):
            if self.shown.is_terminating(uid) or uid not in self.shown.pods:
                seen_leaving.append(self._look(uid, asked))
            elif self.clocks.monotonic() - asked.asked_at > UNANSWERED_S:
                self.unanswered.pop(uid, None)
        await asyncio.gather(*seen_leaving)

    async def _find_out_all(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await asyncio.gather(*(self._find_out(uid) for uid in self.unanswered))

    async def _find_out(self, uid: str) -> None:
        while asked := self.unanswered.get(uid):
            await self._look(uid, asked)
            if uid in self.unanswered:
                await self.clocks.sleep(POLL_S)

    async def _look(self, uid: str, asked: UnansweredEviction) -> None:
        """See whether a pod leaves; where it stays after the last request may have arrived, it was asked in vain.

        A pod that the watch does not show any more may have ended by itself.
        """
        held, is_settled = asked.held, self.clocks.monotonic() >= asked.asked_at + SETTLING_S
        if not self.shown.is_terminating(uid):
            try:
                leaves = await is_going(
                    self.client, namespace=held.namespace, name=held.name, uid=uid, timeout_s=WRITE_DEADLINE_S
                )
            except ApiError as error:
                _log.warning("whether a pod leaves is open", pod=held.full_name, node=held.node, cause=str(error))
                return
            if not leaves:
                if is_settled:
                    self.unanswered.pop(uid, None)
                return
        # Its answer may have come meanwhile.
        if uid in self.unanswered:
            self._note(held, asked.nomination)

    async def _ask(
        self, ask: Callable[[], Awaitable[None]], held: Reservation, nomination: Nomination
    ) -> EvictionOutcome:
        return await self._asking.run(self._ask_and_note(ask, held, nomination), f"evict {held.full_name}")

    async def _ask_and_note(
        self, ask: Callable[[], Awaitable[None]], held: Reservation, nomination: Nomination
    ) -> EvictionOutcome:
        may_leave = False
        for pause_s in (*_PAUSES_S, None):
            try:
                await ask()
            except (NotFoundError, ConflictError):
                if may_leave:
                    # It left because of a request whose answer was lost.
                    break
                self.unanswered.pop(held.uid, None)
                return EvictionOutcome.GONE
            except ApiError as error:
                if isinstance(error, TooManyRequestsError) and error.retry_after_s is None:
                    self.unanswered.pop(held.uid, None)
                    return EvictionOutcome.FORBIDDEN
                _log.warning("pod not evicted", pod=held.full_name, node=held.node, cause=str(error))
                may_leave = may_leave or error.outcome_unknown
                if not may_leave:
                    self.unanswered.pop(held.uid, None)
                if not error.outcome_unknown or pause_s is None:
                    return EvictionOutcome.FAILED
                await self.clocks.sleep(pause_s)
                if held.uid in self.evicted:
                    break
            else:
                break
        self._note(held, nomination)
        return EvictionOutcome.LEAVES

    def _expect_answer(self, held: Reservation, nomination: Nomination, recheck: Callable[[], None]) -> None:
        recheck()
        self.unanswered[held.uid] = UnansweredEviction(held, nomination, self.clocks.monotonic())

    async def _evict(self, held: Reservation, nomination: Nomination, recheck: Callable[[], None]) -> None:
        await evict(
            self.client,
            namespace=held.namespace,
            name=held.name,
            uid=held.uid,
            timeout_s=WRITE_DEADLINE_S,
            recheck=partial(self._expect_answer, held, nomination, recheck),
        )

    async def _delete(self, held: Reservation, nomination: Nomination, recheck: Callable[[], None]) -> None:
        """Say why in the pod's status, as kube-scheduler does, and delete it."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"gpuloom: {_tell(nomination)}, which needs its cards",
            "lastTransitionTime": encode_time(self.clocks.now()),
        }
        try:
            await self.client.patch(
                PODS,
                held.name,
                {"status": {"conditions": [condition]}},
                namespace=held.namespace,
                subresource="status",
                uid=held.uid,
                timeout_s=WRITE_DEADLINE_S,
                lists_by_key=True,
                recheck=recheck,
            )
        except InvalidError as error:
            # Another pod has its name by now.
            raise NotFoundError(error.verb, error.object, error.status, error.message) from error
        await self.client.delete(
            PODS,
            held.name,
            namespace=held.namespace,
            uid=held.uid,
            timeout_s=WRITE_DEADLINE_S,
            recheck=partial(self._expect_answer, held, nomination, recheck),
        )

    def _note(self, held: Reservation, nomination: Nomination) -> None:
        self.unanswered.pop(held.uid, None)
        if held.uid in self.evicted:
            # The watch has told it before the answer.
            return
        self.evicted[held.uid] = None
        self.counts.victims += 1
        _log.info("pod evicted", pod=held.full_name, node=held.node, room_for=nomination.full_name)
        told = _tell(nomination)
        pod = Subject("Pod", held.namespace, held.name, held.uid)
        self.recorder.record(pod, "Normal", "Preempted", told[0].upper() + told[1:])


def _tell(nomination: Nomination) -> str:
    """Say for whom, without the name: pods of other namespaces are nobody's business."""
    return f"preempted by pod {nomination.uid} of priority {nomination.priority} on node {nomination.node}"
