"""Whether the pods of a file can be simulated: what is wrong is told before anything runs, with file and pod."""

from collections.abc import Iterable, Sequence

from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import TracePod
from gpuloom.simulation.policies import POLICY_MAKERS
from gpuloom.simulation.policies.engine_policy import MILLI_A_PERCENT, EnginePolicyMaker


def check_pods(file: str, pods: Sequence[TracePod], policies: Iterable[str]) -> None:
    """Raise SimulationError where no pod asks for a GPU, or one for a share that gpuloom's pods cannot ask for."""
    if not any(pod.shape.demand for pod in pods):
        raise SimulationError(f"{file}: no pod asks for a GPU: expected at least one with num_gpu of 1 or more")
    exact = next((name for name in policies if isinstance(POLICY_MAKERS[name], EnginePolicyMaker)), None)
    odd = next((pod for pod in pods if pod.shape.milli % MILLI_A_PERCENT), None)
    if exact and odd:
        raise SimulationError(
            f"{file}: pod {odd.name} asks for {odd.shape.milli} milli of a GPU: expected a multiple of "
            f"{MILLI_A_PERCENT}, because {exact} takes whole per cents as pods of a cluster ask for them"
        )
