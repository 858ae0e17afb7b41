"""What policies learn of a list of pods: shapes, counted."""

from collections.abc import Iterable

from gpuloom.engine.scoring.fragmentation.workload import Workload, WorkloadShape, count_shapes
from gpuloom.simulation.pods import TracePod


def count_workload(pods: Iterable[TracePod]) -> Workload:
    """Count pods by shape; host memory plays no part. Raises ValueError when there are none."""
    shapes = (pod.shape for pod in pods)
    return count_shapes(WorkloadShape(shape.cpu_milli, shape.gpus, shape.milli, shape.spec) for shape in shapes)
