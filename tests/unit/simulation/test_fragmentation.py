"""Typical pods and fragmentation, by the check values of section 3 of the page on placement quality."""

from collections import Counter

import numpy as np
import pytest

from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.fragmentation_table import FragmentationTable
from gpuloom.simulation.pods import PodShape
from gpuloom.simulation.policies.fgd import score_nodes
from gpuloom.simulation.typical import TypicalShape, count_shapes, find_typical

EXAMPLE = {
    TypicalShape(4000, 500, 1, ""): 0.5,
    TypicalShape(8000, 1000, 1, ""): 0.3,
    TypicalShape(2000, 0, 0, ""): 0.2,
}


@pytest.mark.parametrize(
    ("name", "typical", "shapes"),
    [("default", 35, 91), ("gpushare100", 21, 49), ("multigpu50", 43, 91), ("gpuspec33", 127, 330)],
)
def test_so_many_of_all_shapes_are_typical(openb, name, typical, shapes):
    pods = openb.pods(name)
    assert (len(find_typical(pods)), len(count_shapes(pods))) == (typical, shapes)


def test_the_commonest_shape_comes_first_with_its_probability(openb):
    typical = find_typical(openb.pods("default"))
    shape, probability = next(iter(typical.items()))
    assert shape == TypicalShape(cpu_milli=3152, milli=810, gpus=1, spec="")
    assert round(probability, 6) == 0.134818


def test_typical_pods_cover_so_many_pods(openb):
    pods = openb.pods("default")
    counts = count_shapes(pods)
    assert sum(counts[shape] for shape in find_typical(pods)) == 7766


def test_probabilities_of_pods_without_gpus_sum_up(openb):
    typical = find_typical(openb.pods("default"))
    assert round(sum(chance for shape, chance in typical.items() if not shape.gpus), 6) == 0.135977


@pytest.mark.parametrize(
    ("name", "gpus"),
    [("default", 866.233), ("gpushare100", 847.451), ("multigpu50", 915.078), ("gpuspec33", 2204.453)],
)
def test_the_empty_cluster_is_fragmented_so_much(openb, name, gpus):
    cluster = TraceCluster(openb.nodes)
    table = FragmentationTable(find_typical(openb.pods(name)), cluster.models)
    lost = table.measure(cluster.model, cluster.cpu_free, cluster.milli_free)
    assert round(float(lost.sum()) / 1000, 3) == gpus


def make_example() -> TraceCluster:
    """A node with 6 cores free and GPUs with 1000, 700 and 300 milli."""
    cluster = TraceCluster([TraceNode("n", 6000, 1, 3, "G2")])
    cluster.milli_free[0, :3] = 1000, 700, 300
    return cluster


def test_the_worked_example_has_its_fragmentation():
    cluster = make_example()
    table = FragmentationTable(EXAMPLE, cluster.models)
    assert table.measure(cluster.model, cluster.cpu_free, cluster.milli_free).tolist() == pytest.approx([1150])


def test_the_worked_example_has_its_changes():
    cluster = make_example()
    table = FragmentationTable(EXAMPLE, cluster.models)
    after = table.measure_with_share(cluster.model, cluster.cpu_free - 2000, cluster.milli_free, 300)
    assert (after[0, :3] - 1150).tolist() == pytest.approx([-150, 50, -300])


def test_the_worked_example_gives_the_pod_the_last_gpu():
    cluster = make_example()
    table = FragmentationTable(EXAMPLE, cluster.models)
    scores, cards = score_nodes(cluster, table, PodShape(2000, 0, 1, 300, ""), np.arange(1))
    assert (scores.tolist(), cards.tolist()) == ([57], [2])


@pytest.mark.parametrize(
    ("shape", "score"),
    [((11300, 1000, 1), 53), ((3152, 810, 1), 48), ((88000, 1000, 8), 74), ((32000, 0, 0), 50)],
)
def test_an_empty_node_of_the_commonest_kind_scores_so(openb, shape, score):
    cpu_milli, milli, gpus = shape
    cluster = TraceCluster(openb.nodes)
    table = FragmentationTable(find_typical(openb.pods("default")), cluster.models)
    node = np.array([next(place for place in range(len(cluster)) if is_g2(cluster, place))])
    assert score_nodes(cluster, table, PodShape(cpu_milli, 0, gpus, milli, ""), node)[0].tolist() == [score]


def test_an_empty_node_of_the_commonest_kind_is_fragmented_so_much(openb):
    cluster = TraceCluster(openb.nodes)
    table = FragmentationTable(find_typical(openb.pods("default")), cluster.models)
    lost = table.measure(cluster.model, cluster.cpu_free, cluster.milli_free)
    found = Counter(round(float(lost[place]), 3) for place in range(len(cluster)) if is_g2(cluster, place))
    assert found == {1087.819: 549}


def is_g2(cluster: TraceCluster, place: int) -> bool:
    return cluster.models[cluster.model[place]] == "G2"
