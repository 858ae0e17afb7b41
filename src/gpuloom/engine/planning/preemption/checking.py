"""Whether a plan still holds: asked right before somebody acts on it."""

from collections.abc import Generator
from dataclasses import dataclass, field

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.state.cluster_state import NodeVersion
from gpuloom.engine.steps import run_to_end


@dataclass(slots=True)
class PlanCheck:
    """Checks one plan: first in steps, then once more in no time, as long as nothing changed on its node."""

    scheduler: PodScheduler
    preemptor: Preemptor
    plan: PreemptionPlan
    _held_at: NodeVersion | None = field(default=None, init=False)

    def check(self) -> Generator[None, None, bool]:
        """Tell whether the pod fits when all of a plan have left, and would not if any victim stayed.

        In steps of one question to the node's cards; it is right as of the first.
        """
        plan, asked = self.plan, self.preemptor.demands
        self._held_at = None
        if not self._are_all_there():
            return False
        at = self.scheduler.cluster_state.version_of(plan.node)
        named = (*plan.victims, *plan.leaving)
        elsewhere = [one.uid for one in plan.leaving if one.reservation.node != plan.node]
        fork = self.scheduler.fork((plan.node,), elsewhere)
        for gone in (self.preemptor.uid, *(one.uid for one in named)):
            fork.cluster_state.forget(gone)
        yield
        if not fork.takes(asked, plan.node):
            return False
        for victim in plan.victims:
            yield
            fork.cluster_state.assume(victim.reservation)
            if fork.takes(asked, plan.node):
                return False
            fork.cluster_state.forget(victim.uid)
        # What a quota leaves changes with pods on any node.
        self._held_at = None if self.scheduler.is_limited(asked) else at
        return True

    def still_holds(self) -> bool:
        """Tell the same as of now."""
        if self._held_at is None or self.scheduler.cluster_state.has_changed(self.plan.node, self._held_at):
            return run_to_end(self.check())
        return self._are_all_there()

    def _are_all_there(self) -> bool:
        ledger = self.scheduler.cluster_state.ledger
        return all(ledger.find(one.uid) is one.reservation for one in (*self.plan.victims, *self.plan.leaving))
