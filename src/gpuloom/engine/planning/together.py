"""Whether pods have room all together: they are placed one after another on a fork, each seeing those before it."""

from collections.abc import Generator, Iterable

from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands


def fit_together(scheduler: PodScheduler, pods: Iterable[Demands]) -> Generator[None, None, bool]:
    """Tell whether the cards would do for all of these pods at once, in steps of one pod.

    The cluster is asked as it was at the first step; nothing of the live state changes. Raises ValueError for a pod
    that asks for no card.
    """
    trial = scheduler.fork()
    fork, names = trial.cluster_state, tuple(trial.cluster_state.nodes)
    for demands in pods:
        yield
        decision = trial.decide(demands, names)
        if decision.node is None:
            return False
        demand = next(iter(demands.values()))
        fork.assume(imagine_reservation(demand, decision.node, decision.shares, decision.instances, decision.extras))
    return True
