import pytest

from gpuloom.simulation.cluster import TraceNode
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.what_if import add_nodes, find_avoided, remove_nodes, scale_pods

NODES = (
    TraceNode("a", 96_000, 393_216, 8, "A100"),
    TraceNode("b", 96_000, 393_216, 8, "A100"),
    TraceNode("c", 128_000, 786_432, 8, "H100"),
    TraceNode("d", 64_000, 262_144, 2, "T4"),
)
PODS = tuple(TracePod(f"p{number}", TraceShape(number, 0, 0, 0, "")) for number in range(10))


def test_added_nodes_are_like_those_of_their_model():
    added = add_nodes(NODES, "a100:8x2")[4:]
    assert [(node.cpu_milli, node.memory_mib, node.gpus, node.model) for node in added] == [
        (96_000, 393_216, 8, "A100")
    ] * 2


def test_added_nodes_of_a_new_model_are_like_the_commonest_of_their_size():
    node = add_nodes(NODES, "B200:8x1")[-1]
    assert (node.cpu_milli, node.model) == (96_000, "B200")


def test_added_nodes_of_a_new_size_have_cpu_and_memory_for_each_gpu():
    node = add_nodes(NODES, "L4:4x1")[-1]
    assert (node.cpu_milli, node.memory_mib) == (48_000, 196_608)


def test_added_nodes_have_names_of_their_own():
    nodes = add_nodes(add_nodes(NODES, "T4:2x3"), "T4:2x2,A100:8x1")
    assert len({node.name for node in nodes}) == len(nodes) == 10


def test_removed_nodes_are_the_last_of_their_kind():
    assert [node.name for node in remove_nodes(NODES, "a100:8x1,t4:2x1")] == ["a", "c"]


@pytest.mark.parametrize("groups", ["", "a100", "a100:8", "a100:8x", "a100:0x1", "a100:8x0", ":8x1", "a100:8x-1"])
def test_groups_that_cannot_be_read_are_refused(groups):
    with pytest.raises(SimulationError, match=r"^--add-nodes .*expected MODEL:GPUSxNODES, such as a100:8x4"):
        add_nodes(NODES, groups)


def test_more_nodes_than_there_are_cannot_be_removed():
    with pytest.raises(SimulationError, match="there are 2 such nodes to remove"):
        remove_nodes(NODES, "A100:8x3")


@pytest.mark.parametrize(("factor", "count"), [(0.5, 5), (1.0, 10), (1.3, 13), (2.0, 20)])
def test_pods_come_so_many_times(factor, count):
    scaled = scale_pods(PODS, factor)
    assert len({pod.name for pod in scaled}) == count
    assert {pod.shape for pod in scaled} <= {pod.shape for pod in PODS}


def test_twice_the_pods_are_each_pod_twice():
    assert sorted(pod.shape for pod in scale_pods(PODS, 2)) == sorted([pod.shape for pod in PODS] * 2)


def test_a_factor_that_leaves_no_pod_with_gpus_is_told():
    first = TracePod("a", TraceShape(1, 0, 1, 500, ""))
    with pytest.raises(SimulationError, match=r"--scale-pods 0\.1 leaves no pod that asks for a GPU"):
        scale_pods((first, *PODS), 0.1)


def test_nodes_are_avoided_by_model_and_size():
    assert find_avoided(NODES, "a100:8, T4:2", "n.csv") == {"a", "b", "d"}


@pytest.mark.parametrize("groups", ["a100", "a100:4", "B200:8", ""])
def test_kinds_of_nodes_that_are_not_there_cannot_be_avoided(groups):
    with pytest.raises(
        SimulationError, match=r"n\.csv has no such node: expected kinds of nodes, of A100:8, H100:8, T4:2"
    ):
        find_avoided(NODES, groups, "n.csv")
