"""Who is told of cards that take no new pods because of what cannot be read (trust T-11)."""

from typing import Any

import pytest
from builders import card

from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.closings import Closing
from gpuloom.kube.recorder import Subject
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.events.closedcards import MOST_AT_ONCE, ClosedCardEvents
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[Subject, str]] = []

    def record(self, subject: Subject, _kind: str, _reason: str, message: str) -> None:
        self.told.append((subject, message))


class Scene:
    def __init__(self) -> None:
        self.state = SchedulerState(SchedulerSettings())
        self.state.charge.since = 0.0
        self.state.cluster.register("n1", "NVIDIA", NodeCards((card("GPU-a"),)))
        self.recorder = Recorder()
        recorder: Any = self.recorder
        self.events = ClosedCardEvents(self.state.cluster, self.state.charge, recorder, Clocks())

    def close(self, name: str, cause: str = "cannot be read", node: str = "n1", **cards: frozenset[str]) -> None:
        self.state.cluster.close(Closing(f"uid-{name}", "ml", name, node, cause, cards))

    def tell(self) -> list[str]:
        self.recorder.told.clear()
        self.events.record_new()
        return [f"{one.kind} {one.name}" for one, _ in self.recorder.told]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_pod_and_its_node_are_told_once(scene: Scene) -> None:
    scene.close("train")
    assert (scene.tell(), scene.tell()) == (["Pod train", "Node n1"], [])


def test_the_pods_event_says_why_and_what_to_do(scene: Scene) -> None:
    scene.close("train")
    scene.tell()
    assert scene.recorder.told[0][1] == (
        "cards of node n1 take no new pods until this pod is gone: delete it, or create it anew; cannot be read"
    )


def test_the_nodes_event_names_no_pod_that_its_readers_may_not_read(scene: Scene) -> None:
    """trust: names of others' pods are for nobody; events of nodes stand in the namespace default."""
    scene.close("train")
    scene.tell()
    assert scene.recorder.told[1][1] == (
        "cards take no new pods until the pod with UID uid-train is gone; its event says why"
    )


def test_what_changes_or_comes_again_is_told_again(scene: Scene) -> None:
    scene.close("train")
    scene.tell()
    scene.close("train", cause="another")
    first = scene.tell()
    scene.state.reopen("uid-train")
    scene.tell()
    scene.close("train", cause="another")
    assert (len(first), len(scene.tell())) == (2, 2)


def test_only_who_is_in_charge_tells(scene: Scene) -> None:
    scene.state.charge.since = None
    scene.close("train")
    assert scene.tell() == []


def test_very_many_are_told_bit_by_bit(scene: Scene) -> None:
    for number in range(MOST_AT_ONCE + 5):
        scene.close(f"p{number}")
    assert (len(scene.tell()), len(scene.tell()), scene.tell()) == (2 * MOST_AT_ONCE, 10, [])


def test_where_there_are_no_such_cards_nobody_is_told_before_they_are_registered(scene: Scene) -> None:
    """trust T-03: other nodes of the cluster may be served by other device plugins."""
    scene.close("elsewhere", node="n2", NVIDIA=frozenset())
    scene.close("other-vendor", DCU=frozenset())
    before = scene.tell()
    scene.state.cluster.register("n2", "NVIDIA", NodeCards((card("GPU-a"),)))
    assert (before, scene.tell()) == ([], ["Pod elsewhere", "Node n2"])
