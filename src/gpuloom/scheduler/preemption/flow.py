"""Makes room for refused pods, one attempt after the other, and ends nominations whose time is over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from gpuloom.engine.planning.preemption.victims import PreemptionPlan
from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import EventRecorder, KubeClient
from gpuloom.kube.podevents import record
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.observer import NOBODY, ProcessObserver
from gpuloom.scheduler.preemption.attempts import PreemptionAttempt, PreemptionAttempts
from gpuloom.scheduler.preemption.counts import PreemptionCounts
from gpuloom.scheduler.preemption.ends import NominationEnds
from gpuloom.scheduler.preemption.evicting import EvictionOutcome, Evictor
from gpuloom.scheduler.preemption.nominating import LIMIT_S, nominate
from gpuloom.scheduler.preemption.plan_finder import DropCause, PlanFinder
from gpuloom.scheduler.preemption.refused import REMEMBERED_S, RefusedEvictions
from gpuloom.scheduler.preemption.writing import NominationWriter
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import SHORT_S, TimeSlice
from gpuloom.scheduler.watch.budgets import BudgetHandler

PERIOD_S = 1.0
"""So often nominations are looked at that nobody has ended, and it is read ahead what the next plan needs."""
AGAIN_S = 1.0
LONGEST_AGAIN_S = 30.0
MOST_RETRIES = 8


@dataclass(slots=True)
class PreemptionFlow:
    """Makes room. ``counts`` says what became of it; nobody is evicted before all ``budgets`` are known."""

    client: KubeClient
    state: SchedulerState
    attempts: PreemptionAttempts
    recorder: EventRecorder
    clocks: Clocks
    budgets: BudgetHandler
    observer: ProcessObserver = NOBODY
    counts: PreemptionCounts = field(default_factory=PreemptionCounts)
    refused: RefusedEvictions = field(init=False)
    evictor: Evictor = field(init=False)
    finder: PlanFinder = field(init=False)
    writer: NominationWriter = field(init=False)
    ends: NominationEnds = field(init=False)
    _refused_at: dict[str, float] = field(default_factory=dict)
    _attempts_of: dict[str, PreemptionAttempt] = field(default_factory=dict)
    _evicting_for: dict[str, Nomination] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.state.settings
        self.refused = RefusedEvictions(self.clocks.monotonic)
        self.writer = NominationWriter(self.client, self.state, self.clocks)
        self.evictor = Evictor(self.client, self.state.shown, self.recorder, self.clocks, self.counts)
        self.ends = NominationEnds(self.state, self.evictor, self.clocks)
        self.finder = PlanFinder(
            self.state,
            self.refused,
            self.evictor.evicted.keys(),
            settings.spared_namespaces,
            settings.preemption_budgets == "strict",
            self.clocks,
        )

    async def run(self) -> None:
        """Make room until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_ends(tasks))
            tasks.create_task(self.clocks.every(PERIOD_S, self._sweep))
            tasks.create_task(self._follow_choices(tasks))
            while True:
                await self.clocks.wait(self.attempts.changed, self._pause_s())
                self.attempts.changed.clear()
                await self._try_due(tasks)

    async def close(self) -> None:
        """Settle the evictions that were sent, and say why of all who leave."""
        await self.evictor.close()

    def _pause_s(self) -> float:
        if not len(self.attempts):
            return LIMIT_S
        due = self.attempts.next_due(self._find_least())
        # Those that wait because others' room is being made are looked at now and then.
        return PERIOD_S if due is None else max(due - self.clocks.monotonic(), 0.0)

    def _find_least(self) -> float:
        """The least priority of a pod for which room may be made now, infinite where for none.

        Those that are nominated count for pods of their priority and below: a more important one never waits until
        the victims of others have ended, which may take as long as these like.
        """
        if not (self.budgets.is_listed and self.state.charge.is_ours):
            return inf
        return self.state.nominations.least_with_fewer(self.state.settings.preemption_most_plans)

    async def _try_due(self, tasks: asyncio.TaskGroup) -> None:
        while attempt := self.attempts.take_due(self.clocks.monotonic(), self._find_least()):
            self.counts.attempts += 1
            found = await self.finder.find(attempt)
            if not self.attempts.finish(attempt):
                found = DropCause.OUTDATED
            elif attempt.priority < self._find_least():
                found = DropCause.CHANGED
            if isinstance(found, DropCause):
                self._drop(attempt, found)
            elif (nomination := self._nominate(attempt, found)) is not None:
                tasks.create_task(self._carry_out(attempt, found, nomination))
            await TimeSlice().pause()

    def _drop(self, attempt: PreemptionAttempt, cause: DropCause) -> None:
        self.counts.dropped[cause.value] += 1
        pause_s = REMEMBERED_S if cause in _WAITING else min(AGAIN_S * 2**attempt.retries, LONGEST_AGAIN_S)
        if cause in _WORTH_ANOTHER_TRY and attempt.retries < MOST_RETRIES:
            self.attempts.put_back(attempt, self.clocks.monotonic() + pause_s)

    def _nominate(self, attempt: PreemptionAttempt, plan: PreemptionPlan) -> Nomination | None:
        """Nominate a pod for the node of a plan; who waits there and is less important gives way."""
        own = self.state.nominations.find(attempt.uid)
        has_room_kept = own is not None and own.node == plan.node
        if not (plan.victims or has_room_kept or self._find_below(plan.node, attempt.priority)):
            # Those that leave anyway make room enough; the pod is woken when they are gone, if that is soon.
            self._drop(attempt, DropCause.LEAVING)
            return None
        # The watch may be late with those who were asked for others.
        asked = (one for one in plan.leaving if not self.state.shown.is_terminating(one.uid))
        victims = frozenset(one.uid for one in (*plan.victims, *asked))
        nomination = self._put(attempt.uid, plan.node, victims, attempt.refused_at)
        if nomination is None:
            self._drop(attempt, DropCause.NOT_SEEN)
        else:
            self._attempts_of[attempt.uid] = attempt
        return nomination

    def _put(self, uid: str, node: str, victims: frozenset[str], refused_at: float) -> Nomination | None:
        """Nominate a pod, None where it does not wait any more; the less important that lose their room give way."""
        nomination = nominate(self.state, uid, node, self.clocks.unix, victims)
        if nomination is None:
            return None
        self.observer.on_nominated(nomination)
        for other in self._find_below(node, nomination.priority):
            if not self.state.decider.would_fit(other):
                self._lose_room(other, "superseded")
        self._refused_at[uid] = refused_at
        return nomination

    def _find_below(self, node: str, priority: int) -> list[Nomination]:
        return [one for one in self.state.nominations if one.node == node and one.priority < priority]

    async def _follow_choices(self, tasks: asyncio.TaskGroup) -> None:
        """Nominate pods for which kube-scheduler evicts others, on the node that it chose."""
        promised = self.state.promised
        while True:
            await promised.changed.wait()
            promised.changed.clear()
            for uid, node in list(promised.chosen.items()):
                victims = promised.take(uid)
                if self.state.charge.is_ours and (nomination := self._put(uid, node, victims, self.clocks.monotonic())):
                    self.attempts.drop(uid)
                    tasks.create_task(self._write_chosen(nomination))

    async def _write_chosen(self, nomination: Nomination) -> None:
        pod = self.state.shown.pods.get(nomination.uid)
        with suppress(StoppedError):
            if pod is not None:
                await self.writer.write(pod, nomination, self._make_recheck(nomination))

    async def _carry_out(self, attempt: PreemptionAttempt, plan: PreemptionPlan, nomination: Nomination) -> None:
        """Write the nomination on the pod, then ask the victims to leave."""
        self._evicting_for[nomination.uid] = nomination
        try:
            cause = await self._write_and_evict(attempt, plan, nomination, self._make_recheck(nomination))
        except StoppedError:
            return
        finally:
            if self._evicting_for.get(nomination.uid) is nomination:
                del self._evicting_for[nomination.uid]
        if cause is not None:
            # First, so that the Filter that follows the end of a nomination does not try again at once.
            self._drop(attempt, cause)
            if cause in _WORTH_ANOTHER_TRY and self.ends.has_anyone_left(nomination):
                self._keep_room(nomination)
            else:
                self._end(nomination, cause.value)

    def _lose_room(self, nomination: Nomination, cause: str) -> None:
        """Take that a pod's node has no room for it: nobody more is asked to leave, and the pod is planned for anew.

        Where somebody has left for it, and those who have the room may yet go elsewhere, it waits behind them.
        """
        if self.ends.waits_behind(nomination) and self.ends.has_anyone_left(nomination):
            if nomination.is_asked:
                self._keep_room(nomination)
                if (attempt := self._attempts_of.get(nomination.uid)) is not None:
                    self._drop(attempt, DropCause.CHANGED)
        else:
            self._end(nomination, cause)

    def _keep_room(self, nomination: Nomination) -> None:
        """Keep the room of a pod for which some leave and nobody more is asked, until it is planned anew, or a while.

        Who takes it meanwhile would make their leaving vain.
        """
        if self.state.nominations.find(nomination.uid) is nomination:
            kept = replace(nomination, since=self.clocks.unix, is_asked=False)
            self.state.nominations.put(kept)
            self.observer.on_nominated(kept)

    def _make_recheck(self, nomination: Nomination) -> Callable[[], None]:
        """Make what raises StoppedError when nothing may be written for a nomination any more."""

        def recheck() -> None:
            self.state.charge.check()
            has_room = self.state.cluster.ledger.find(nomination.uid) is not None
            if has_room or self.state.nominations.find(nomination.uid) is not nomination:
                raise StoppedError

        return recheck

    async def _write_and_evict(
        self, attempt: PreemptionAttempt, plan: PreemptionPlan, nomination: Nomination, recheck: Callable[[], None]
    ) -> DropCause | None:
        pod = self.state.shown.pods.get(nomination.uid)
        if pod is None or not await self.writer.write(pod, nomination, recheck):
            return DropCause.UNWRITTEN
        left = await self._find_left(attempt, plan, recheck)
        if isinstance(left, DropCause):
            return left
        if count := len(left.victims):
            leave = f"{count} pod{'s' if count != 1 else ''} of lower priority"
            record(self.recorder, pod, "Normal", "PreemptionStarted", f"evicting {leave} from node {plan.node}")
        return await self._evict_all(attempt, left, nomination, recheck)

    async def _find_left(
        self, attempt: PreemptionAttempt, plan: PreemptionPlan, recheck: Callable[[], None]
    ) -> PreemptionPlan | DropCause:
        """Find who of a plan has yet to leave: the API server may have taken seconds for the last write."""
        left = await self.finder.find_left(attempt, plan)
        recheck()
        return left

    async def _evict_all(
        self, attempt: PreemptionAttempt, plan: PreemptionPlan, nomination: Nomination, recheck: Callable[[], None]
    ) -> DropCause | None:
        # Those first whose budgets may forbid it: others would have left in vain.
        for number, victim in enumerate(sorted(plan.victims, key=lambda one: not one.budgets)):
            left = await self._find_left(attempt, plan, recheck) if number else plan
            if isinstance(left, DropCause):
                return left
            if victim.uid not in {one.uid for one in left.victims}:
                continue
            match await self.evictor.evict(victim, nomination, recheck, may_break=victim.uid in plan.breaking):
                case EvictionOutcome.FORBIDDEN:
                    self.refused.note(victim.uid)
                    return DropCause.FORBIDDEN
                case EvictionOutcome.FAILED:
                    return DropCause.FAILED
        return None

    def _end(self, nomination: Nomination, cause: str) -> None:
        """End a nomination that no call and no watch has ended."""
        if self.state.nominations.find(nomination.uid) is not nomination:
            return
        self.state.nominations.end(nomination.uid, cause)
        self.observer.on_nomination_ended(nomination.uid)

    async def _follow_ends(self, tasks: asyncio.TaskGroup) -> None:
        """Count nominations that are over, and take the annotation off pods that still wait."""
        while True:
            await self.state.nominations.changed.wait()
            self.state.nominations.changed.clear()
            while self.state.nominations.ended:
                end = self.state.nominations.ended.popleft()
                self.counts.ended[end.cause] += 1
                refused_at = self._refused_at.pop(end.nomination.uid, None)
                self._attempts_of.pop(end.nomination.uid, None)
                if end.cause == "bound" and refused_at is not None:
                    self.counts.bound_s += self.clocks.monotonic() - refused_at
                elif end.cause != "deleted":
                    tasks.create_task(self.writer.clear(end.nomination))
            # Others may begin now.
            self.attempts.changed.set()

    async def _sweep(self) -> None:
        await self.evictor.note_leaving()
        if self.state.charge.is_ours:
            await self.finder.prepare()
        time_slice = TimeSlice(SHORT_S)
        for nomination in self.state.nominations:
            await time_slice.pause()
            await time_slice.finish(self.state.decider.bring_up_with(nomination))
            if self.state.nominations.find(nomination.uid) is not nomination or not self.state.charge.is_ours:
                continue
            cause = self.ends.find_end(nomination, is_evicting=nomination.uid in self._evicting_for)
            if cause == "no_room":
                self._lose_room(nomination, cause)
            elif cause:
                self._end(nomination, cause)


_WAITING = frozenset({DropCause.BUDGET, DropCause.YOUNG})
_WORTH_ANOTHER_TRY = _WAITING | {
    DropCause.NOT_SEEN,
    DropCause.LEAVING,
    DropCause.CHANGED,
    DropCause.FORBIDDEN,
    DropCause.FAILED,
    DropCause.UNWRITTEN,
}
