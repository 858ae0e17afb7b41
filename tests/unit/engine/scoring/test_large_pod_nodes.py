"""What is known of nodes for large pods stays small whatever pods are to be expected: anybody may ask for anything."""

from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LEAST_CARDS, MOST_CLASSES, LargePodNodes
from gpuloom.engine.scoring.fragmentation.pod_mix import MOST_SHAPES
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Workload, WorkloadShape

WILD = {WorkloadShape(1 + at, LEAST_CARDS + at, WHOLE): 1 for at in range(MOST_SHAPES)}


def test_of_wild_shapes_a_node_is_on_one_of_few_levels() -> None:
    levels = LargePodNodes(Workload(WILD), 0.1).level(2**31, 2**40) + 1
    assert levels == (MOST_CLASSES + 1) ** 2


def test_of_many_classes_those_of_most_pods_are_kept() -> None:
    large_pods = LargePodNodes(Workload(WILD | {WorkloadShape(0, LEAST_CARDS + MOST_SHAPES, WHOLE): 2}), 0.1)
    assert large_pods.is_one_able(large_pods.level(LEAST_CARDS + MOST_SHAPES, 0))


def test_as_many_classes_as_are_kept_are_all_there() -> None:
    few = dict(list(WILD.items())[-MOST_CLASSES:])
    large_pods = LargePodNodes(Workload(few), 0.1)
    assert all(large_pods.is_one_able(large_pods.level(shape.cards, shape.cpu_milli)) for shape in few)
