"""A pod's author chooses what stands in its annotations: what they cost is bounded (trust T-02)."""

import tracemalloc

import pytest
from builders import pod

from gpuloom.engine.request.demand import LONGEST_WISH, MOST_CHOICES
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState

USE_TYPE, MODE = "nvidia.com/use-gputype", "nvidia.com/vgpu-mode"


@pytest.fixture
def state() -> SchedulerState:
    return SchedulerState(SchedulerSettings())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (USE_TYPE, "z," * MOST_CHOICES),
        (USE_TYPE, "z" * (LONGEST_WISH + 1)),
        (MODE, "z" * (LONGEST_WISH + 1)),
        ("hami.io/node-scheduler-policy", "z" * (LONGEST_WISH + 1)),
    ],
)
def test_a_pod_whose_wishes_are_too_long_cannot_be_placed(state: SchedulerState, key: str, value: str) -> None:
    with pytest.raises(PolicyError, match=f"annotation {key} is longer than 16384 characters or 1024 entries: shorten"):
        state.settings.read_demands(pod(gpu=1, gpumem=1, annotations={key: value}))


def test_as_many_wishes_as_a_large_cluster_has_cards_are_read(state: SchedulerState) -> None:
    uuids = ",".join(f"GPU-{number:032}" for number in range(400))
    (demand,) = state.settings.read_demands(pod(gpu=1, annotations={"nvidia.com/nouse-gpuuuid": uuids})).values()
    assert len(demand.selector.nouse_uuids) == 400


def test_a_pod_that_asks_for_no_card_may_have_annotations_of_any_length(state: SchedulerState) -> None:
    assert state.settings.read_demands(pod(annotations={USE_TYPE: "z," * 100_000})) == {}


def test_refused_pods_that_are_gone_cost_little_memory(state: SchedulerState) -> None:
    tracemalloc.start()
    for number in range(50):
        choices = f"q{number}," + ",".join(f"z{at}" for at in range(MOST_CHOICES - 2))
        one = pod(name=f"p{number}", gpu=1, gpumem=1, annotations={USE_TYPE: choices})
        state.waiting.note_refused(one, state.settings.read_demands(one), 0.0)
        state.remove_pod(one.metadata.uid, 0.0)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 50 * 200_000
