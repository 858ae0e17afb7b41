import random

import pytest

from gpuloom.simulation.cluster import TraceCluster, TraceNode
from gpuloom.simulation.modes import DefaultScheduler, score_default
from gpuloom.simulation.pods import TraceShape

SHAPE = TraceShape(1000, 1000, 0, 0, "")


def make_cluster(*nodes: tuple[int, int]) -> TraceCluster:
    return TraceCluster([TraceNode(f"n{place}", cpu, memory, 1, "G2") for place, (cpu, memory) in enumerate(nodes)])


@pytest.mark.parametrize(
    ("cpu_milli", "memory_mib", "score"),
    [
        (2000, 2000, 50 + 100),
        (4000, 2000, (75 + 50) // 2 + 87),
        (3000, 3000, 66 + 100),
        (1000, 7000, (0 + 85) // 2 + 57),
    ],
)
def test_the_score_adds_least_allocated_and_balanced_in_whole_numbers(cpu_milli, memory_mib, score):
    assert score_default(make_cluster((cpu_milli, memory_mib)), SHAPE, [0]).tolist() == [score]


def test_the_freest_node_takes_the_pod():
    cluster = make_cluster((4000, 4000), (8000, 8000))
    rule = DefaultScheduler(cluster, random.Random(1))
    assert rule.choose(SHAPE, cluster.find_fitting(SHAPE)) == (1, ())


def test_a_node_that_does_not_fit_is_not_taken():
    cluster = make_cluster((8000, 500), (2000, 2000))
    rule = DefaultScheduler(cluster, random.Random(1))
    assert rule.choose(SHAPE, cluster.find_fitting(SHAPE)).node == 1


def test_equals_come_by_chance():
    cluster = make_cluster((4000, 4000), (4000, 4000), (1000, 1000))
    rule = DefaultScheduler(cluster, random.Random(1))
    fits = cluster.find_fitting(SHAPE)
    assert {rule.choose(SHAPE, fits).node for _ in range(50)} == {0, 1}


def test_nodes_that_are_avoided_are_taken_where_no_other_has_room():
    cluster = make_cluster((2000, 2000), (64000, 64000))
    rule = DefaultScheduler(cluster, random.Random(1), {"n1"})
    assert rule.choose(SHAPE, cluster.find_fitting(SHAPE)).node == 0
    large = TraceShape(4000, 4000, 0, 0, "")
    assert rule.choose(large, cluster.find_fitting(large)).node == 1
