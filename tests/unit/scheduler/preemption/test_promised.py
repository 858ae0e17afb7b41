"""What kube-scheduler was answered about nodes, and which of them it chose."""

import pytest
from builders import pod
from msgspec.structs import replace

from gpuloom.scheduler.preemption.promised import BELIEVED_S, CHOOSES_WITHIN_S, PromisedNodes
from gpuloom.wire.objects import PodStatus

VICTIMS = {"n1": frozenset({"low"})}


def promise(*names: str) -> PromisedNodes:
    promised = PromisedNodes()
    for name in names:
        promised.note(f"uid-{name}", 10, VICTIMS, 0.0)
    return promised


def choose(promised: PromisedNodes, name: str, now: float) -> None:
    promised.follow(replace(pod(name=name), status=PodStatus(nominated_node_name="n1")), now)


def test_what_was_chosen_before_the_pod_asked_anew_is_not_taken() -> None:
    promised = promise("high")
    choose(promised, "high", 0.5)
    promised.note("uid-high", 10, {"n2": frozenset()}, 1.0)
    assert promised.chosen == {}


@pytest.mark.parametrize(("after_s", "is_taken"), [(-0.5, True), (0.0, False)])
def test_a_node_that_is_named_much_later_was_not_chosen_because_of_the_answer(
    after_s: float, *, is_taken: bool
) -> None:
    promised = promise("high")
    choose(promised, "high", CHOOSES_WITHIN_S + BELIEVED_S + after_s)
    assert bool(promised.chosen) is is_taken


def test_of_too_many_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.scheduler.preemption.promised.MOST_PROMISED", 2)
    promised = promise("first", "second", "third")
    for name in ("first", "second", "third"):
        choose(promised, name, 0.5)
    assert list(promised.chosen) == ["uid-second", "uid-third"]


def test_who_asked_anew_is_not_the_oldest_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.scheduler.preemption.promised.MOST_PROMISED", 2)
    promised = promise("first", "second", "first", "third")
    for name in ("first", "second", "third"):
        choose(promised, name, 0.5)
    assert list(promised.chosen) == ["uid-first", "uid-third"]


def test_nothing_is_nominated_for_a_pod_that_is_gone() -> None:
    promised = promise("high")
    choose(promised, "high", 0.5)
    promised.forget("uid-high")
    assert promised.chosen == {}


def test_a_pod_that_is_gone_keeps_nobody_from_its_nodes() -> None:
    promised = promise("high")
    promised.forget("uid-high")
    assert promised.find_undecided(0.5) == frozenset()
