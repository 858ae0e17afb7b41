from functools import cache
from pathlib import Path

import pytest

from gpuloom.simulation.cluster import TraceNode
from gpuloom.simulation.pods import TracePod
from gpuloom.simulation.reading.traces import read_nodes, read_pods

OPENB = Path(__file__).resolve().parents[3] / "benchmarks" / "openb"


class Trace:
    """The openb trace, read once."""

    @property
    def nodes(self) -> tuple[TraceNode, ...]:
        return _nodes()

    def pods(self, name: str) -> tuple[TracePod, ...]:
        return _pods(name)


@cache
def _nodes() -> tuple[TraceNode, ...]:
    return read_nodes(str(OPENB / "openb_node_list_gpu_node.csv.xz"))


@cache
def _pods(name: str) -> tuple[TracePod, ...]:
    return read_pods(str(OPENB / f"openb_pod_list_{name}.csv.xz"))


@pytest.fixture(scope="session")
def openb() -> Trace:
    return Trace()
