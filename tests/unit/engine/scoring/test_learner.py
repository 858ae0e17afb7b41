"""Which pods are to be expected follows from those that were seen: once each, and less as time goes by."""

from collections import Counter

import pytest

from gpuloom.engine.scoring.fragmentation.learner import PodLearner
from gpuloom.engine.scoring.fragmentation.pod_mix import MOST_SHAPES, MOST_SIZES, ExpectedShape, PodMix

HALF = ExpectedShape("NVIDIA", 4000, 1, memory_percent=50, cores=50)
WHOLE = ExpectedShape("NVIDIA", 8000, 1, memory_percent=100, cores=100)
DAY_S = 86_400.0


def see_many(learner: PodLearner, shape: ExpectedShape, count: int, now: float, prefix: str = "") -> None:
    for number in range(count):
        learner.see(f"{prefix}{shape.cores}-{number}", shape, now)


def test_below_two_hundred_pods_nothing_is_expected() -> None:
    learner = PodLearner(DAY_S)
    see_many(learner, HALF, 199, 0.0)
    assert learner.mix(0.0) is None
    learner.see("one more", HALF, 0.0)
    assert learner.mix(0.0) == PodMix({HALF: 200 * 64})


def test_a_pod_counts_once_however_often_it_is_seen() -> None:
    learner = PodLearner(DAY_S)
    see_many(learner, HALF, 200, 0.0)
    see_many(learner, HALF, 200, 0.0)
    see_many(learner, WHOLE, 100, 0.0)
    assert share_of(learner, WHOLE, 0.0) == pytest.approx(1 / 3)


@pytest.mark.parametrize("windows", [1, 3, 45])
def test_after_each_window_a_pod_counts_half_as_much(windows: int) -> None:
    learner, later = PodLearner(DAY_S), windows * DAY_S
    see_many(learner, HALF, 6400, 0.0)
    see_many(learner, WHOLE, 6400, later)
    assert share_of(learner, HALF, later) == pytest.approx(2.0**-windows / (1 + 2.0**-windows), abs=1e-3)


def share_of(learner: PodLearner, shape: ExpectedShape, now: float) -> float:
    mix = learner.mix(now)
    assert mix is not None
    return mix.counts.get(shape, 0) / mix.pods


def test_of_very_many_shapes_the_commonest_are_expected() -> None:
    mix = PodMix({ExpectedShape("NVIDIA", cpu, 1, memory_mib=cpu + 1): cpu + 1 for cpu in range(2 * MOST_SHAPES)})
    assert len(mix.counts) == MOST_SHAPES
    assert min(shape.cpu_milli for shape in mix.counts) == MOST_SHAPES


def test_shares_of_very_many_sizes_are_valued_by_the_commonest() -> None:
    mix = PodMix(Counter([ExpectedShape("NVIDIA", 0, 1, memory_percent=percent) for percent in range(10, 99)]))
    workload = mix.of_vendor("NVIDIA", ["any"], 16_384)
    assert workload is not None
    assert len(workload.sharing_sizes(0)) == MOST_SIZES
    assert workload.pods == mix.pods


def test_pods_of_other_vendors_are_not_expected() -> None:
    mix = PodMix(Counter([HALF, ExpectedShape("MLU", 1000, 2, memory_mib=5), ExpectedShape(cpu_milli=500)]))
    workload = mix.of_vendor("NVIDIA", ["any"], 16_384)
    assert workload is not None
    assert workload.pods == 2
    assert mix.of_vendor("DCU", ["any"], 16_384) is None


def test_a_mix_without_pods_is_refused() -> None:
    with pytest.raises(ValueError, match="no pods"):
        PodMix({HALF: 0})
