"""Whether pods have room all together: they are placed one after another on a fork, each seeing those before it."""

from collections.abc import Generator, Iterable

from gpuloom.engine.decision.imagined import imagine_placed
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
        fork.assume(imagine_placed(demands, decision))
    return True
