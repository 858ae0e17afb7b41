"""What policies learn of a list of pods: shapes, counted."""

from collections import Counter
from collections.abc import Iterable

from gpuloom.engine.scoring.fragmentation.workload import Workload, WorkloadShape
from gpuloom.simulation.pods import TracePod, TraceShape


def count_workload(pods: Iterable[TracePod]) -> Workload:
    """Count pods by shape. Raises ValueError when there are none."""
    return Workload(Counter(forget_memory(pod.shape) for pod in pods))


def forget_memory(shape: TraceShape) -> WorkloadShape:
    """Return a shape without host memory, which plays no part; models matter only to pods that ask for GPUs."""
    return WorkloadShape(shape.cpu_milli, shape.gpus, shape.milli, shape.spec if shape.gpus else "")
