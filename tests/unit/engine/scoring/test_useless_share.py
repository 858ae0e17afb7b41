"""What a typical pod cannot use of a node: the worked example, and the plain definition on random nodes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.fragmentation import Node, Pod, typical_of, useless

from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import MOST_ASKED, WHOLE, Workload, WorkloadShape

TYPICAL = [
    (WorkloadShape(4000, 1, 500), 0.5),
    (WorkloadShape(8000, 1, 1000), 0.3),
    (WorkloadShape(2000, 0, 0), 0.2),
]
PODS = st.lists(
    st.one_of(
        st.builds(Pod, st.integers(0, 20), st.integers(1, 1000), st.integers(1, 3), st.sampled_from(["", "a", "b|a"])),
        st.builds(Pod, st.integers(0, 20), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=30,
)
NODES = st.builds(
    Node,
    st.sampled_from(["a", "b"]),
    st.just(20),
    st.integers(0, 20),
    st.lists(st.integers(0, 1000), min_size=4, max_size=4),
)


def measure(share: UselessShare, model: int, cpu: int, free: list[int]) -> float:
    rows = np.array([free])
    used = share.used(share.supply(rows), share.chances(np.array([model]), np.array([cpu])))
    return float(sum(free) - used[0])


@pytest.mark.parametrize(
    ("cpu", "free", "useless_milli"),
    [
        (6000, [1000, 700, 300], 1150),
        (4000, [700, 700, 300], 1000),
        (4000, [1000, 400, 300], 1200),
        (4000, [1000, 700, 0], 850),
    ],
)
def test_the_worked_example(cpu: int, free: list[int], useless_milli: float) -> None:
    assert measure(UselessShare(TYPICAL, ["any"]), 0, cpu, free) == pytest.approx(useless_milli)


@given(PODS, NODES)
def test_the_table_says_what_counting_pod_by_pod_says(pods: list[Pod], node: Node) -> None:
    typical = to_workload(pods).typical()
    found = measure(UselessShare(typical, ["a", "b"]), "ab".index(node.model), node.cpu, node.free)
    assert found == pytest.approx(useless(typical_of(pods), node), abs=1e-6)


@given(PODS)
def test_typical_pods_are_the_commonest_shapes(pods: list[Pod]) -> None:
    found = [(Pod(s.cpu_milli, s.share_milli, s.cards, s.models), p) for s, p in to_workload(pods).typical()]
    assert found == typical_of(pods)


def test_typical_pods_ask_for_few_different_things_whatever_there_is() -> None:
    wild = {WorkloadShape(1000, cards, WHOLE): 1 for cards in range(2, 258)}
    assert len(UselessShare(Workload(wild).typical(), ["any"]).asked) == MOST_ASKED


def to_workload(pods: list[Pod]) -> Workload:
    return Workload(Counter(WorkloadShape(pod.cpu, pod.cards, pod.share, pod.models) for pod in pods))


def test_a_workload_without_pods_is_refused() -> None:
    with pytest.raises(ValueError, match="the workload has no pods"):
        Workload(Counter([]))
