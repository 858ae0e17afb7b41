import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.simulation.cluster import SLOTS, Choice, TraceCluster, TraceNode
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.pods import TracePod, TraceShape
from gpuloom.simulation.policies import POLICY_MAKERS, find_policy
from gpuloom.simulation.policies.policy import PolicySetup

HALF = TraceShape(1000, 1000, 1, 500, "")
WHOLE = TraceShape(1000, 1000, 1, 1000, "")
PAIR = TraceShape(1000, 1000, 2, 1000, "")
TENTH = TraceShape(0, 0, 1, 50, "")


def make_cluster(*gpus: int) -> TraceCluster:
    return TraceCluster([TraceNode(f"n{place}", 64_000, 64_000, count, "G2") for place, count in enumerate(gpus)])


def make_policy(name: str, cluster: TraceCluster):
    workload = tuple(TracePod(f"p{place}", shape) for place, shape in enumerate((HALF, WHOLE, PAIR)))
    return POLICY_MAKERS[name](PolicySetup(cluster, workload, "A", random.Random(1)))


def place(name: str, cluster: TraceCluster, *shapes: TraceShape) -> list[Choice]:
    policy, choices = make_policy(name, cluster), []
    for shape in shapes:
        choices.append(policy.choose(shape, cluster.find_fitting(shape)))
        cluster.place(shape, choices[-1])
    return choices


def test_best_fit_takes_the_node_on_which_least_is_left():
    assert place("BestFit", make_cluster(8, 2, 4), HALF) == [(1, (0,))]


def test_best_fit_gives_a_share_of_the_fullest_gpu_that_suffices():
    choices = place("BestFit", make_cluster(2), TraceShape(0, 0, 1, 700, ""), HALF, TraceShape(0, 0, 1, 300, ""))
    assert [choice.cards for choice in choices] == [(0,), (1,), (0,)]


def test_dot_prod_takes_the_node_with_the_smaller_product():
    assert place("DotProd", make_cluster(8, 1), WHOLE)[0].node == 1


def test_gpu_packing_takes_a_shared_gpu_before_a_free_one_of_a_node_in_use():
    assert [choice.cards for choice in place("GpuPacking", make_cluster(2), HALF, HALF)] == [(0,), (0,)]


def test_gpu_packing_takes_a_node_in_use_before_an_idle_one():
    assert [choice.node for choice in place("GpuPacking", make_cluster(8, 8), WHOLE, WHOLE, PAIR)] == [0, 0, 0]


def test_gpu_clustering_keeps_a_node_for_one_class():
    assert [choice.node for choice in place("GpuClustering", make_cluster(8, 8), HALF, WHOLE, HALF)] == [0, 1, 0]


def test_fgd_keeps_a_free_gpu_whole():
    assert [choice.cards for choice in place("FGD", make_cluster(2), HALF, HALF)] == [(0,), (0,)]


def test_random_takes_every_node_now_and_then():
    cluster = make_cluster(1, 1, 1)
    policy = make_policy("Random", cluster)
    fits = cluster.find_fitting(WHOLE)
    assert Counter(policy.choose(WHOLE, fits).node for _ in range(90)).keys() == {0, 1, 2}


def test_binpack_fills_the_node_in_use():
    assert len({choice.node for choice in place("binpack", make_cluster(4, 4, 4), HALF, HALF, WHOLE)}) == 1


def test_spread_takes_an_unused_node():
    assert len({choice.node for choice in place("spread", make_cluster(4, 4, 4), HALF, HALF, HALF)}) == 3


def test_first_fit_takes_the_first_node_and_the_first_gpu():
    assert place("first-fit", make_cluster(2, 2), HALF, HALF, PAIR) == [(0, (0,)), (0, (0,)), (1, (0, 1))]


def test_an_own_policy_says_which_share_no_pod_can_ask_for():
    with pytest.raises(SimulationError, match="a share of 55 milli is no whole per cent"):
        place("binpack", make_cluster(1), TraceShape(0, 0, 1, 55, ""))


def test_names_of_policies_are_read_in_any_case():
    assert [find_policy(name) for name in ("bestfit", " FGD ", "First-Fit")] == ["BestFit", "FGD", "first-fit"]


def test_an_unknown_policy_is_refused_with_those_that_there_are():
    with pytest.raises(SimulationError, match="unknown policy 'worst': expected one of binpack, "):
        find_policy("worst")


def test_so_many_pods_share_a_gpu_and_no_more():
    cluster = make_cluster(1)
    place("BestFit", cluster, *[TENTH] * SLOTS)
    assert not cluster.find_fitting(TENTH).any()


SHAPES = st.builds(
    lambda cpu, memory, asked, spec: TraceShape(cpu, memory, asked[0], asked[1], spec if asked[0] else ""),
    st.sampled_from((0, 4000, 30_000)),
    st.sampled_from((0, 10_000, 50_000)),
    st.sampled_from(((0, 0), (1, 50), (1, 330), (1, 500), (1, 1000), (2, 1000), (4, 1000))),
    st.sampled_from(("", "G2", "T4|G2", "T4|T4")),
)
NODES = st.lists(st.tuples(st.sampled_from((1, 2, 4, 8)), st.sampled_from(("G2", "T4"))), min_size=1, max_size=5)


@pytest.mark.parametrize("name", POLICY_MAKERS)
@settings(max_examples=15)
@given(nodes=NODES, shapes=st.lists(SHAPES, min_size=1, max_size=30))
def test_every_policy_places_what_fits_and_gives_no_more_than_there_is(name, nodes, shapes):
    """A pod that fits somewhere is placed, and what is left is what was there less what was given."""
    cluster = TraceCluster(TraceNode(f"n{n}", 64_000, 64_000, gpus, model) for n, (gpus, model) in enumerate(nodes))
    arriving = [TracePod(f"p{number}", shape) for number, shape in enumerate(shapes)]
    journal = place_all(cluster, arriving, POLICY_MAKERS[name], workload=tuple(arriving), mode="A", seed=1)
    assert (cluster.milli_free >= 0).all()
    assert (cluster.slots_free >= 0).all()
    assert (cluster.cpu_free >= 0).all()
    assert (cluster.memory_free >= 0).all()
    assert cluster.milli_free.sum() == cluster.capacity - journal.allocated[-1]
    assert (cluster.total_free == cluster.milli_free.sum(1)).all()
    assert (cluster.whole_free == (cluster.milli_free == 1000).sum(1)).all()
    assert (cluster.largest_free == np.where(cluster.slots_free > 0, cluster.milli_free, 0).max(1)).all()
    assert len(cluster.changes) == journal.failed.count(False)


@given(nodes=NODES, shapes=st.lists(SHAPES, min_size=1, max_size=20), asked=SHAPES)
def test_a_node_fits_where_the_rules_of_the_experiment_say_so(nodes, shapes, asked):
    cluster = TraceCluster(TraceNode(f"n{n}", 64_000, 64_000, gpus, model) for n, (gpus, model) in enumerate(nodes))
    pods = [TracePod(f"p{number}", shape) for number, shape in enumerate(shapes)]
    place_all(cluster, pods, POLICY_MAKERS["Random"], workload=tuple(pods), mode="A", seed=1)
    expected = [
        cluster.cpu_free[node] >= asked.cpu_milli
        and cluster.memory_free[node] >= asked.memory_mib
        and (not asked.spec or nodes[node][1] in asked.spec.split("|"))
        and sum(
            left >= asked.milli and slots > 0
            for left, slots in zip(cluster.milli_free[node], cluster.slots_free[node], strict=True)
        )
        >= asked.gpus
        for node in range(len(cluster))
    ]
    assert cluster.find_fitting(asked).tolist() == expected
