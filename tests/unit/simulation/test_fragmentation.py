"""Typical pods and fragmentation, by the check values of section 3 of the page on placement quality."""

import numpy as np
import pytest

from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WorkloadShape
from gpuloom.simulation.cluster import Choice, TraceCluster, TraceNode
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.fgd import score_nodes
from gpuloom.simulation.workloads import count_workload

EXAMPLE = [
    (WorkloadShape(4000, 1, 500), 0.5),
    (WorkloadShape(8000, 1, 1000), 0.3),
    (WorkloadShape(2000, 0, 0), 0.2),
]


def measure(cluster: TraceCluster, useless: UselessShare) -> np.ndarray:
    """The fragmentation of every node in milli."""
    used = useless.used(useless.supply(cluster.milli_free), useless.chances(cluster.model, cluster.cpu_free))
    lost: np.ndarray = cluster.total_free - used
    return lost


@pytest.mark.parametrize(
    ("name", "typical", "shapes"),
    [("default", 35, 91), ("gpushare100", 21, 49), ("multigpu50", 43, 91), ("gpuspec33", 127, 330)],
)
def test_so_many_of_all_shapes_are_typical(openb, name, typical, shapes):
    workload = count_workload(openb.pods(name))
    assert (len(workload.typical()), len(workload.counts)) == (typical, shapes)


def test_the_commonest_shape_comes_first_with_its_probability(openb):
    shape, probability = count_workload(openb.pods("default")).typical()[0]
    assert shape == WorkloadShape(cpu_milli=3152, cards=1, share_milli=810)
    assert round(probability, 6) == 0.134818


def test_typical_pods_cover_so_many_pods(openb):
    workload = count_workload(openb.pods("default"))
    assert sum(workload.counts[shape] for shape, _ in workload.typical()) == 7766


def test_probabilities_of_pods_without_gpus_sum_up(openb):
    typical = count_workload(openb.pods("default")).typical()
    assert round(sum(chance for shape, chance in typical if not shape.cards), 6) == 0.135977


@pytest.mark.parametrize(
    ("name", "gpus"),
    [("default", 866.233), ("gpushare100", 847.451), ("multigpu50", 915.078), ("gpuspec33", 2204.453)],
)
def test_the_empty_cluster_is_fragmented_so_much(openb, name, gpus):
    cluster = TraceCluster(openb.nodes)
    useless = UselessShare(count_workload(openb.pods(name)).typical(), cluster.models)
    assert round(float(measure(cluster, useless).sum()) / 1000, 3) == gpus


def make_example() -> TraceCluster:
    """A node with 6 cores free and GPUs with 1000, 700 and 300 milli."""
    cluster = TraceCluster([TraceNode("n", 6000, 1, 3, "G2")])
    cluster.milli_free[0, :3] = 1000, 700, 300
    cluster.total_free[0] = 2000
    return cluster


def test_the_worked_example_has_its_fragmentation():
    cluster = make_example()
    assert measure(cluster, UselessShare(EXAMPLE, cluster.models)).tolist() == pytest.approx([1150])


@pytest.mark.parametrize(("card", "growth"), [(0, -150), (1, 50), (2, -300)])
def test_the_worked_example_has_its_changes(card, growth):
    cluster = make_example()
    useless = UselessShare(EXAMPLE, cluster.models)
    cluster.place(TraceShape(2000, 0, 1, 300, ""), Choice(0, (card,)))
    assert measure(cluster, useless).tolist() == pytest.approx([1150 + growth])


def test_the_worked_example_gives_the_pod_the_last_gpu():
    cluster = make_example()
    scores, cards = score_nodes(
        cluster, UselessShare(EXAMPLE, cluster.models), TraceShape(2000, 0, 1, 300, ""), np.arange(1)
    )
    assert (scores.tolist(), cards.tolist()) == ([57], [2])


@pytest.mark.parametrize(
    ("shape", "score"),
    [((11300, 1000, 1), 53), ((3152, 810, 1), 48), ((88000, 1000, 8), 74), ((32000, 0, 0), 50)],
)
def test_an_empty_node_of_the_commonest_kind_scores_so(openb, shape, score):
    cpu_milli, milli, gpus = shape
    cluster = TraceCluster(openb.nodes)
    useless = UselessShare(count_workload(openb.pods("default")).typical(), cluster.models)
    node = np.array([next(place for place in range(len(cluster)) if is_g2(cluster, place))])
    assert score_nodes(cluster, useless, TraceShape(cpu_milli, 0, gpus, milli, ""), node)[0].tolist() == [score]


def test_an_empty_node_of_the_commonest_kind_is_fragmented_so_much(openb):
    cluster = TraceCluster(openb.nodes)
    useless = UselessShare(count_workload(openb.pods("default")).typical(), cluster.models)
    lost = measure(cluster, useless)
    assert {round(float(lost[place]), 3) for place in range(len(cluster)) if is_g2(cluster, place)} == {1087.819}


def is_g2(cluster: TraceCluster, place: int) -> bool:
    return bool(cluster.models[cluster.model[place]] == "G2")
