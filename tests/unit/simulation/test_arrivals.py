"""Streams of pods as section 1 of the page on placement quality has them."""

import hashlib

import pytest

from gpuloom.simulation.arrivals import make_arrivals, take_arrived
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.modes import select_pods
from gpuloom.simulation.pods import TracePod, TraceShape

CAPACITY = 6_212_000


@pytest.mark.parametrize(
    ("name", "seed", "pods", "arrived", "digest"),
    [
        ("default", 42, 10_771, 8_075_170, "008cce54b5c0b491"),
        ("default", 43, 10_792, 8_074_810, "d323ac2a6db0599e"),
        ("gpushare100", 42, 16_616, 8_075_070, "3e9887ed4707becb"),
        ("multigpu50", 42, 6_414, 8_073_210, "d1122944f818d6dd"),
        ("gpuspec33", 42, 10_771, 8_075_170, "008cce54b5c0b491"),
    ],
)
def test_a_stream_is_the_one_of_the_check_values(openb, name, seed, pods, arrived, digest):
    stream = make_arrivals(openb.pods(name), CAPACITY, seed)
    names = "\n".join(pod.name for pod in stream).encode()
    assert len(stream) == pods
    assert sum(pod.shape.demand for pod in stream) == arrived
    assert hashlib.sha256(names).hexdigest()[:16] == digest


def test_the_cluster_has_the_capacity_of_the_experiment(openb):
    assert 1000 * sum(node.gpus for node in openb.nodes) == CAPACITY


def test_the_order_of_the_file_does_not_matter(openb):
    pods = openb.pods("default")
    assert make_arrivals(pods[::-1], CAPACITY, 1) == make_arrivals(pods, CAPACITY, 1)


def test_a_list_without_gpu_demand_is_refused():
    with pytest.raises(SimulationError, match="no pod of the list asks for a GPU"):
        make_arrivals([TracePod("p", TraceShape(1000, 1, 0, 0, ""))], CAPACITY, 1)


def test_arrived_pods_end_where_more_than_the_cluster_has_was_asked_for():
    pods = [TracePod(name, TraceShape(0, 0, 1, 600, "")) for name in "abc"]
    assert [pod.name for pod in take_arrived(pods, 1200)] == ["a", "b"]


def test_mode_c_has_no_pods_without_gpus(openb):
    pods = openb.pods("default")
    assert {pod.shape.gpus for pod in select_pods(pods, "C")} == {1, 2, 4, 8}
    assert len(select_pods(pods, "B")) == len(pods)
