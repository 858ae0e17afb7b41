"""Other clusters and other workloads than those of the files: nodes more or less, or avoided, pods more often."""

import re
from collections import Counter
from collections.abc import Sequence

from gpuloom.simulation.cluster import TraceNode
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import TracePod

_GROUP = re.compile(r"(?P<model>[^:,\s]+):(?P<gpus>\d{1,2})x(?P<nodes>\d{1,5})", re.ASCII)
_EXPECTED = "expected MODEL:GPUSxNODES, such as a100:8x4 for 4 nodes of 8 GPUs each"
_MILLI_CORES_A_GPU, _MIB_A_GPU = 12_000, 49_152
"""What an added node has for each GPU where no listed one is like it: as the commonest node of the openb trace."""


def add_nodes(nodes: Sequence[TraceNode], groups: str) -> tuple[TraceNode, ...]:
    """Return the nodes and new ones: ``a100:8x4`` adds 4 nodes of 8 GPUs of model a100.

    CPU and host memory are those of the commonest listed node of this model and size, else of this size.
    Raises SimulationError.
    """
    added = list(nodes)
    for model, gpus, count in _read_groups("--add-nodes", groups):
        cpu_milli, memory_mib = _find_usual(nodes, model, gpus)
        taken = {node.name for node in added}
        names = (name for number in range(1, 2**20) if (name := f"added-{model}-{number:05}") not in taken)
        added += [TraceNode(next(names), cpu_milli, memory_mib, gpus, _spell(nodes, model)) for _ in range(count)]
    return tuple(added)


def remove_nodes(nodes: Sequence[TraceNode], groups: str) -> tuple[TraceNode, ...]:
    """Return the nodes without some: of ``a100:8x4`` the 4 of model a100 with 8 GPUs whose names come last.

    Raises SimulationError.
    """
    left = sorted(nodes, key=lambda node: node.name)
    for model, gpus, count in _read_groups("--remove-nodes", groups):
        alike = [node for node in left if node.gpus == gpus and node.model.casefold() == model.casefold()]
        if len(alike) < count:
            raise SimulationError(f"--remove-nodes {model}:{gpus}x{count}: there are {len(alike)} such nodes to remove")
        gone = set(alike[len(alike) - count :])
        left = [node for node in left if node not in gone]
    if not any(node.gpus for node in left):
        raise SimulationError(f"--remove-nodes {groups}: no GPU would be left: remove fewer nodes")
    return tuple(left)


def scale_pods(pods: Sequence[TracePod], factor: float) -> tuple[TracePod, ...]:
    """Return so many times the pods, evenly over the list in the order of its names: 0.5 is every second, 2 each twice.

    Raises SimulationError when none would be left.
    """
    ordered = sorted(pods, key=lambda pod: pod.name)
    marks = [int(place * factor) for place in range(len(ordered) + 1)]
    scaled = [
        pod if copy == 0 else TracePod(f"{pod.name}-copy-{copy}", pod.shape)
        for place, pod in enumerate(ordered)
        for copy in range(marks[place + 1] - marks[place])
    ]
    if not scaled:
        raise SimulationError(f"--scale-pods {factor:g} leaves no pod of {len(ordered)}: give a larger factor")
    if any(pod.shape.demand for pod in ordered) and not any(pod.shape.demand for pod in scaled):
        raise SimulationError(f"--scale-pods {factor:g} leaves no pod that asks for a GPU: give a larger factor")
    return tuple(scaled)


def find_avoided(nodes: Sequence[TraceNode], groups: str, file: str) -> frozenset[str]:
    """Return the names of nodes of some models and sizes: ``a100:8`` are those with 8 GPUs of model a100.

    file  where the nodes are from, for what is said
    Raises SimulationError when there is none of a kind.
    """
    avoided: set[str] = set()
    for part in groups.split(","):
        model, _, gpus = part.strip().rpartition(":")
        alike = {node.name for node in nodes if str(node.gpus) == gpus and node.model.casefold() == model.casefold()}
        if not alike:
            kinds = sorted({f"{node.model}:{node.gpus}" for node in nodes})
            raise SimulationError(
                f"--cpu-pods-avoid {part.strip()!r}: {file} has no such node: "
                f"expected kinds of nodes, of {', '.join(kinds)}"
            )
        avoided |= alike
    return frozenset(avoided)


def _read_groups(flag: str, groups: str) -> list[tuple[str, int, int]]:
    found = []
    for part in groups.split(","):
        match = _GROUP.fullmatch(part.strip())
        if match is None or not int(match["gpus"]) or not int(match["nodes"]):
            raise SimulationError(f"{flag} {part.strip()!r}: {_EXPECTED}")
        found.append((match["model"], int(match["gpus"]), int(match["nodes"])))
    return found


def _find_usual(nodes: Sequence[TraceNode], model: str, gpus: int) -> tuple[int, int]:
    """Return CPU and host memory for a new node."""
    same_size = [node for node in nodes if node.gpus == gpus]
    alike = [node for node in same_size if node.model.casefold() == model.casefold()] or same_size
    if not alike:
        return gpus * _MILLI_CORES_A_GPU, gpus * _MIB_A_GPU
    return Counter((node.cpu_milli, node.memory_mib) for node in sorted(alike, key=lambda node: node.name)).most_common(
        1
    )[0][0]


def _spell(nodes: Sequence[TraceNode], model: str) -> str:
    """Return a model as listed nodes spell it: upper and lower case are the same here."""
    return next((node.model for node in nodes if node.model.casefold() == model.casefold()), model)
