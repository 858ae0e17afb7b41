import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.simulation.bound import bound_allocation, has_solver
from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.policies import POLICY_MAKERS

pytestmark = pytest.mark.skipif(not has_solver(), reason="SciPy is missing")


def node(gpus: int = 2, cpu_milli: int = 64_000, model: str = "G2") -> TraceNode:
    return TraceNode(f"{model}-{gpus}", cpu_milli, 64_000, gpus, model)


def pods(count: int, milli: int, *, gpus: int = 1, cpu_milli: int = 0, spec: str = "") -> list[TracePod]:
    return [TracePod(f"p{number}", TraceShape(cpu_milli, 0, gpus, milli, spec)) for number in range(count)]


@pytest.mark.parametrize(
    ("nodes", "arrived", "percent"),
    [
        pytest.param([node()], pods(2, 1000), 100, id="all that fits"),
        pytest.param([node()], pods(1, 1000), 50, id="no more than has arrived"),
        pytest.param([node()], pods(9, 600), 60, id="two shares that are no GPU together"),
        pytest.param([node()], pods(2, 600) + pods(2, 400), 100, id="shares that are a GPU together"),
        pytest.param([node()], pods(2, 500, gpus=2), 100, id="pods that share two GPUs"),
        pytest.param([node()], pods(2, 600, gpus=2), 60, id="pods that cannot share two GPUs"),
        pytest.param([node(cpu_milli=8000)], pods(2, 1000, cpu_milli=8000), 50, id="no more CPU than there is"),
        pytest.param([node()], pods(2, 1000, spec="T4"), 0, id="no GPU of another model"),
        pytest.param([node(), node(model="T4")], pods(4, 1000, spec="T4"), 50, id="of two models one"),
        pytest.param([node(), node(3)], pods(2, 1000, gpus=4), 0, id="no node of so many GPUs"),
    ],
)
def test_the_bound_is_what_can_be_allocated(nodes, arrived, percent):
    assert bound_allocation(nodes, arrived) == pytest.approx(percent)


SHAPES = st.sampled_from(
    [
        TraceShape(cpu, 8_000, gpus, milli, "")
        for cpu in (4000, 16_000)
        for gpus, milli in ((1, 330), (1, 700), (2, 300), (2, 1000))
    ]
)


@settings(max_examples=25)
@given(
    gpus=st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=3), shapes=st.lists(SHAPES, min_size=1, max_size=12)
)
def test_no_policy_beats_the_bound(gpus, shapes):
    nodes = [TraceNode(f"n{number}", 32_000, 32_000, count, "G2") for number, count in enumerate(gpus)]
    arriving = [TracePod(f"p{number}", shape) for number, shape in enumerate(shapes)]
    cluster = TraceCluster(nodes)
    journal = place_all(cluster, arriving, POLICY_MAKERS["BestFit"], workload=tuple(arriving), mode="A", seed=1)
    assert 100 * journal.allocated[-1] / cluster.capacity <= bound_allocation(nodes, arriving) + 1e-6
