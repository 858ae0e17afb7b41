"""Which events are written about pods that are refused again and again."""

from typing import Any

import msgspec
import pytest
from builders import pod

from gpuloom.kube.recorder import Subject
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.events.refusedpods import LOOK_S, PERIOD_S, RefusedPodEvents, asks_nominated_alone
from gpuloom.scheduler.pods.waiting import MOST_TOLD
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import PodStatus


class Recorder:
    def __init__(self) -> None:
        self.told: list[str] = []

    def record(self, subject: Subject, _kind: str, _reason: str, message: str) -> None:
        self.told.append(f"{subject.name}: {message}")


class Scene:
    def __init__(self, period_s: float = PERIOD_S) -> None:
        self.now_s = 100.0
        self.recorder = Recorder()
        self.state = SchedulerState(SchedulerSettings())
        recorder: Any = self.recorder
        clocks = Clocks(monotonic=lambda: self.now_s)
        self.events = RefusedPodEvents(self.state.waiting, self.state.charge, recorder, clocks, period_s)

    def refuse(self, name: str, *messages: str, is_followed: bool = False) -> None:
        self.events.tell(pod(name=name, gpu=1), messages, is_followed=is_followed)

    def take_told(self) -> list[str]:
        told, self.recorder.told = self.recorder.told, []
        return told

    def pass_time(self, seconds: float) -> list[str]:
        """Return what is told after some seconds."""
        self.now_s += seconds
        self.events.tell_due()
        return self.take_told()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_refusal_is_told_at_once_with_all_its_messages(scene: Scene) -> None:
    scene.refuse("a", "1 node CardInsufficientMemory(n1)", "no available node")
    assert scene.take_told() == ["a: 1 node CardInsufficientMemory(n1)", "a: no available node"]


def test_of_what_is_said_in_the_next_seconds_the_newest_is_told_when_they_are_over(scene: Scene) -> None:
    for message in ("first", "second", "third"):
        scene.refuse("a", message)
    assert scene.take_told() == ["a: first"]
    assert scene.pass_time(PERIOD_S - 1) == []
    assert scene.pass_time(1) == ["a: third"]
    scene.refuse("a", "fourth")
    assert scene.pass_time(PERIOD_S - 1) == []


def test_a_pod_of_which_nothing_was_said_meanwhile_is_told_of_at_once_again(scene: Scene) -> None:
    scene.refuse("a", "first")
    assert scene.pass_time(PERIOD_S) == ["a: first"]
    scene.refuse("a", "second")
    assert scene.take_told() == ["a: second"]


def test_each_pod_has_its_own_time(scene: Scene) -> None:
    scene.refuse("a", "first")
    scene.refuse("b", "first")
    assert scene.take_told() == ["a: first", "b: first"]


def test_nothing_is_told_of_a_pod_that_waits_no_more(scene: Scene) -> None:
    scene.refuse("a", "first")
    scene.refuse("a", "second")
    scene.take_told()
    scene.state.waiting.drop("uid-a")
    assert scene.pass_time(PERIOD_S) == []


def test_nothing_is_told_of_a_pod_that_was_deleted_meanwhile(scene: Scene) -> None:
    scene.refuse("a", "first")
    scene.refuse("a", "second")
    scene.take_told()
    scene.state.remove_pod("uid-a", scene.now_s)
    assert scene.pass_time(PERIOD_S) == []


def test_what_was_held_back_is_not_told_by_a_process_that_is_not_in_charge(scene: Scene) -> None:
    """binding 5: followers write nothing."""
    scene.refuse("a", "first")
    scene.refuse("a", "second")
    scene.take_told()
    scene.state.charge.obstacle = "there_1 leads"
    assert scene.pass_time(PERIOD_S) == []


def test_of_two_calls_in_a_row_the_second_is_told(scene: Scene) -> None:
    scene.refuse("a", "1 nodes", is_followed=True)
    scene.refuse("a", "230 nodes")
    assert scene.take_told() == []
    assert scene.pass_time(LOOK_S) == ["a: 230 nodes"]


def test_a_call_that_no_other_followed_is_told_all_the_same(scene: Scene) -> None:
    scene.refuse("a", "1 nodes", is_followed=True)
    assert scene.pass_time(LOOK_S) == ["a: 1 nodes"]


def test_without_a_period_everything_is_told() -> None:
    scene = Scene(period_s=0.0)
    scene.refuse("a", "1 nodes", is_followed=True)
    scene.refuse("a", "230 nodes")
    assert scene.take_told() == ["a: 1 nodes", "a: 230 nodes"]


def test_no_more_pods_are_remembered_than_a_bound(scene: Scene) -> None:
    for number in range(MOST_TOLD + 1):
        scene.refuse(f"p{number}", "first")
    scene.take_told()
    scene.refuse(f"p{MOST_TOLD}", "second")
    scene.refuse("p0", "second")
    assert scene.take_told() == ["p0: second"]


@pytest.mark.parametrize(("names", "is_alone"), [(["n1"], True), (["n2"], False), (["n1", "n2"], False), ([], False)])
def test_a_call_about_the_nominated_node_alone_is_known(names: list[str], *, is_alone: bool) -> None:
    nominated = msgspec.structs.replace(pod(gpu=1), status=PodStatus(nominated_node_name="n1"))
    offered = NodeNames(msgspec.json.encode(names))
    assert asks_nominated_alone(nominated, offered) is is_alone
    assert not asks_nominated_alone(pod(gpu=1), offered)
