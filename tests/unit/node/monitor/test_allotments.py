"""What containers have, by their pods."""

import pytest
from unit.node.monitor.regions import make_pod

from gpuloom.node.monitor import allotments
from gpuloom.node.monitor.allotments import Allotments, read_priority
from gpuloom.wire.objects import Container, Resources

PRIORITY = "nvidia.com/priority"


@pytest.mark.parametrize(
    ("amount", "priority"),
    [(0, 0), ("1", 1), ("3", 3), ("1500m", 2), ("1k", 1000), (2**63 - 1, 2**63 - 1), ("none", 1), ("", 1)],
)
def test_a_priority_is_read_as_the_webhook_reads_it(amount, priority):
    """scheduler 2.2: CUDA_TASK_PRIORITY is the rounded quantity; what cannot be read gains nothing."""
    assert read_priority(Container(resources=Resources(limits={PRIORITY: amount})), PRIORITY) == priority


def test_each_container_has_the_shares_of_its_own_place_init_containers_first():
    pod = make_pod("u1", init=("i",), containers=("a", "b"), allocated="GPU-a,NVIDIA,1,1:;;GPU-b,NVIDIA,2,1:;")
    found = Allotments(PRIORITY).read({"u1": pod})
    assert {key: dict(one.limits) for key, one in found.items()} == {
        ("u1", "i"): {"GPU-a": 2**20},
        ("u1", "a"): {},
        ("u1", "b"): {"GPU-b": 2 * 2**20},
    }


def test_a_list_without_a_place_for_the_init_container_is_that_of_the_regular_ones():
    """HAMi up to 2.8."""
    pod = make_pod("u1", init=("i",), containers=("a", "b"), allocated="GPU-a,NVIDIA,1,1:;GPU-b,NVIDIA,2,1:;")
    found = Allotments(PRIORITY).read({"u1": pod})
    assert {key[1]: [*one.limits] for key, one in found.items()} == {"i": [], "a": ["GPU-a"], "b": ["GPU-b"]}


def test_no_more_than_sixteen_cards_of_a_container_count():
    pod = make_pod("u1", cards=[f"GPU-{number}" for number in range(100)])
    (one,) = Allotments(PRIORITY).read({"u1": pod}).values()
    assert len(one.limits) == 16


def test_a_pod_is_read_once_until_it_changes(monkeypatch):
    """A long annotation that cannot be read must not cost a round's time in every round."""
    reads = []

    def allot(uid, pod, resource, real=allotments.allot):
        reads.append(uid)
        return real(uid, pod, resource)

    monkeypatch.setattr(allotments, "allot", allot)
    read = Allotments(PRIORITY)
    pods = {"u1": make_pod("u1"), "u2": make_pod("u2")}
    for _ in range(3):
        read.read(pods)
    pods["u2"] = make_pod("u2", priority=0)
    found = read.read(pods)
    assert (reads, found["u2", "c"].priority) == (["u1", "u2", "u2"], 0)
