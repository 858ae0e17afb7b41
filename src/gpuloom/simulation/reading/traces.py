"""Nodes and pods of a trace, each with its line; ``count`` makes several of one row."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import WHOLE_MILLI, TracePod, TraceShape
from gpuloom.simulation.reading.rows import Row, read_rows

NODE_COLUMNS = ("cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE_NAMES = ("sn", "name")
_MOST_NUMBER = 2**40
_MOST_GPUS = 64
_MOST_COUNT = 100_000


def read_nodes(file: str) -> tuple[TraceNode, ...]:
    """Read the nodes of a file; their name stands in ``sn``, as in openb, or in ``name``.

    Raises SimulationError.
    """
    nodes: dict[str, TraceNode] = {}
    for row in read_rows(file, NODE_COLUMNS):
        if not row.fields.keys() & _NODE_NAMES:
            raise row.fault(f"the node has no name: expected {' or '.join(_NODE_NAMES)}")
        name = row.text("sn" if "sn" in row.fields else "name")
        gpus = row.number("gpu", 0, _MOST_GPUS)
        for one in _number_names(row, name):
            if one in nodes:
                raise row.fault(f"there is another node {one}: expected names that differ")
            nodes[one] = TraceNode(
                one,
                row.number("cpu_milli", 1, _MOST_NUMBER),
                row.number("memory_mib", 1, _MOST_NUMBER),
                gpus,
                row.text("model") if gpus else row.fields["model"].strip(),
            )
    if not any(node.gpus for node in nodes.values()):
        raise SimulationError(f"{file}: no node has a GPU: expected at least one with gpu of 1 or more")
    return tuple(nodes.values())


def read_pods(file: str) -> tuple[TracePod, ...]:
    """Read the pods of a file.

    Raises SimulationError.
    """
    return tuple(pod for row in read_rows(file, POD_COLUMNS) for pod in _read_pod(row))


class ListedPods(NamedTuple):
    """Pods of a file, and what is to be said of those that can never be placed, empty for nothing."""

    pods: tuple[TracePod, ...]
    note: str


def read_pods_for(file: str, nodes: Sequence[TraceNode]) -> ListedPods:
    """Read the pods of a file that will arrive at these nodes.

    Raises SimulationError, also for a pod that asks for more of something than any node has. One whose wishes no node
    meets together, as there is in a published list, is no mistake: it will fail, and the note says so.
    """
    cluster = TraceCluster(nodes)
    known: dict[TraceShape, bool] = {}
    pods: list[TracePod] = []
    misfits: list[str] = []
    for row in read_rows(file, POD_COLUMNS):
        for pod in _read_pod(row):
            if pod.shape not in known:
                _check_reach(row, pod, cluster)
                known[pod.shape] = cluster.could_ever_fit(pod.shape)
            if not known[pod.shape]:
                misfits.append(f"{row.file}:{row.line}: pod {pod.name}")
            pods.append(pod)
    if not misfits:
        return ListedPods(tuple(pods), "")
    others = f" (and {len(misfits) - 1} more)" if len(misfits) > 1 else ""
    told = f"{misfits[0]}{others} fits no node, however empty: it counts as failed each time it arrives"
    return ListedPods(tuple(pods), told)


def _check_reach(row: Row, pod: TracePod, cluster: TraceCluster) -> None:
    """Refuse a pod that asks for more than any node has, or only for models that none has."""
    shape = pod.shape
    amounts = (
        ("cpu_milli", shape.cpu_milli, cluster.cpu_capacity),
        ("memory_mib", shape.memory_mib, cluster.memory_capacity),
        ("num_gpu", shape.gpus, cluster.gpus),
    )
    for column, asked, capacity in amounts:
        if asked > (most := int(capacity.max())):
            raise row.fault(
                f"pod {pod.name} fits no node: {column} is {asked}: expected at most {most}, as the largest has"
            )
    if shape.gpus and not cluster.accepts(shape.spec).any():
        models = ", ".join(model for model in cluster.models if model)
        raise row.fault(f"pod {pod.name} fits no node: gpu_spec is {shape.spec!r}: expected some of {models}")


def _read_pod(row: Row) -> Iterator[TracePod]:
    gpus = row.number("num_gpu", 0, _MOST_GPUS)
    shape = TraceShape(
        row.number("cpu_milli", 0, _MOST_NUMBER),
        row.number("memory_mib", 0, _MOST_NUMBER),
        gpus,
        row.number("gpu_milli", 1, WHOLE_MILLI) if gpus else 0,
        row.fields.get("gpu_spec", "").strip(),
    )
    for name in _number_names(row, row.text("name")):
        yield TracePod(name, shape)


def _number_names(row: Row, name: str) -> list[str]:
    """Return the names that a row stands for: its own, or with ``count`` that and a number for each."""
    if not row.fields.get("count", "").strip():
        return [name]
    count = row.number("count", 1, _MOST_COUNT)
    return [f"{name}-{number:0{len(str(count))}}" for number in range(1, count + 1)]
