"""Whether a plan still holds: asked right before somebody acts on it."""

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor


def still_holds(scheduler: PodScheduler, preemptor: Preemptor, plan: PreemptionPlan) -> bool:
    """Tell whether the pod fits when all of a plan have left, and would not if any victim stayed.

    Nothing has to be asked where nothing changed on the node since the plan was made and no quota limits the pod;
    otherwise one question to the node's cards a victim, and one more.
    """
    state = scheduler.cluster_state
    named = (*plan.victims, *plan.leaving)
    if not all(state.ledger.find(one.uid) is one.reservation for one in named):
        return False
    is_as_seen = plan.seen is not None and not state.has_changed(plan.node, plan.seen)
    # A quota that came since shows on no node.
    if is_as_seen and not scheduler.is_limited(preemptor.demands):
        return True
    elsewhere = [one.uid for one in plan.leaving if one.reservation.node != plan.node]
    fork = scheduler.fork((plan.node,), elsewhere)
    for gone in (preemptor.uid, *(one.uid for one in named)):
        fork.cluster_state.forget(gone)
    if not fork.takes(preemptor.demands, plan.node):
        return False
    for victim in plan.victims:
        fork.cluster_state.assume(victim.reservation)
        if fork.takes(preemptor.demands, plan.node):
            return False
        fork.cluster_state.forget(victim.uid)
    return True
