"""Pods of several containers: which nodes are tried, and what is told of the others after the answer."""

import gc
import weakref
from unittest.mock import patch

import msgspec
import pytest
from builders import Engine, card, container, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.decision.attempt import BATCH_SIZE
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.placement.placer import Placer
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.wire.objects import Pod, ResourceQuota


def two_halves(name: str = "p", memory_mib: int = 50) -> Pod:
    return pod(*(container(n, gpu=1, gpumem=memory_mib, gpucores=1) for n in ("one", "two")), name=name)


def a_cluster(free_mib: list[int]) -> Engine:
    return Engine({f"n{number}": [card(f"GPU-{number}", memory_mib=free)] for number, free in enumerate(free_mib)})


def finish(decision: Decision) -> Decision:
    for _ in decision.complete():
        pass
    return decision


def test_a_node_that_refused_is_not_tried_again_until_it_changes() -> None:
    engine = a_cluster([60, 100, 100])
    finish(engine.decide(two_halves("first")))
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        finish(engine.decide(two_halves("second")))
    assert place.call_count == 1  # the chosen node itself


def test_only_the_changed_node_is_tried_again_to_tell_of_the_others() -> None:
    engine = a_cluster([100, 100, 100, 100])
    finish(engine.place(two_halves("first")))
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        second = finish(engine.decide(two_halves("second")))
    assert (second.node, place.call_count) == ("n1", 1)


def test_a_decision_gives_up_after_so_many_nodes_tried_in_vain() -> None:
    engine = a_cluster([60] * 5)
    with pytest.raises(UnsettledError):
        engine.decide_among(two_halves(), most_tries=4)


def test_after_all_nodes_are_tried_the_same_question_is_answered_without_another_try() -> None:
    engine = a_cluster([60] * 5)
    with pytest.raises(UnsettledError) as raised:
        engine.decide_among(two_halves(), most_tries=1)
    steps = sum(1 for _ in raised.value.steps)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        decision = engine.decide_among(two_halves(), most_tries=1)
    assert (steps, place.call_count, decision.node, len(decision.refusals)) == (1, 0, None, 5)


def test_no_step_tries_more_nodes_than_may_be_tried_at_once() -> None:
    engine = a_cluster([60] * (2 * BATCH_SIZE + 2))
    with pytest.raises(UnsettledError) as raised:
        engine.decide_among(two_halves(), most_tries=1)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as tried:
        steps = [tried.call_count for _ in raised.value.steps]
    sizes = [len(call.args[1]) for call in tried.call_args_list]
    assert (steps, sum(sizes), max(sizes)) == ([1, 2, 3], 2 * BATCH_SIZE + 1, BATCH_SIZE)


def test_nodes_that_cannot_be_tried_together_are_tried_one_in_a_step() -> None:
    engine = a_cluster([60] * 5)
    halves = [container(name, gpu=1, gpumem=50, gpucores=1) for name in ("one", "two")]
    bound = pod(*halves, annotations={"nvidia.com/numa-bind": "true"})
    with pytest.raises(UnsettledError) as raised:
        engine.decide_among(bound, most_tries=1)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        tries = [place.call_count for _ in raised.value.steps]
    assert tries == [1, 2, 3, 4]


def test_trials_under_a_quota_are_remembered_for_the_question_they_were_made_for() -> None:
    engine = a_cluster([60] * 5)
    limit = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "70"}}}
    engine.cluster.quotas.apply(msgspec.convert(limit, ResourceQuota))
    with pytest.raises(UnsettledError) as raised:
        engine.decide_among(two_halves(), most_tries=1)
    for _ in raised.value.steps:
        pass
    assert engine.decide_among(two_halves(), most_tries=0).node is None


def test_nodes_that_go_while_others_are_tried_harm_nothing() -> None:
    engine = a_cluster([60] * 5)
    with pytest.raises(UnsettledError) as raised:
        engine.decide_among(two_halves(), most_tries=1)
    next(raised.value.steps)
    for number in range(4):
        engine.cluster.register(f"n{number}", NodeCards(()))
    assert sum(1 for _ in raised.value.steps) <= 1


def test_an_abandoned_decision_holds_the_cluster_as_it_was_no_more() -> None:
    engine = a_cluster([100, 100])
    decision = engine.decide(two_halves())
    snapshot = weakref.ref(next(iter(engine.cluster.table._snapshots)))
    decision.abandon()
    gc.collect()
    assert (snapshot(), decision.is_complete) == (None, False)


FREE = st.lists(st.integers(40, 260), min_size=1, max_size=6)


@given(FREE, st.data())
def test_what_is_told_after_the_answer_is_of_the_cluster_as_it_was(free_mib: list[int], data: st.DataObject) -> None:
    at_once, later = a_cluster(free_mib), a_cluster(free_mib)
    expected = finish(at_once.decide(two_halves()))
    decision = later.decide(two_halves())
    steps = decision.complete()
    for number in range(data.draw(st.integers(0, 4))):
        next(steps, None)
        later.place(two_halves(f"other-{number}", data.draw(st.integers(10, 60))))
        node = data.draw(st.integers(0, len(free_mib) - 1))
        later.hold(f"n{node}", f"GPU-{node}", memory_mib=data.draw(st.integers(1, 40)), by=f"holder-{number}")
    for _ in steps:
        pass
    assert decision.fitting.worst_first() == expected.fitting.worst_first()
    assert {n: r.text for n, r in decision.refusals.items()} == {n: r.text for n, r in expected.refusals.items()}


@given(FREE, st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=6))
def test_remembered_trials_answer_as_fresh_ones(free_mib: list[int], held: list[tuple[int, int]]) -> None:
    engine = a_cluster(free_mib)
    for step, (node, memory_mib) in enumerate(held):
        finish(engine.place(two_halves(f"p{step}")))
        engine.hold(f"n{node}", f"GPU-{node}", memory_mib=memory_mib, by=f"holder-{step}")
        remembered = finish(engine.decide(two_halves("asked"), explain=True))
        engine.vendor_scheduler.forget_all()
        has_capacity = engine.has_capacity(two_halves("asked"))
        fresh = finish(engine.decide(two_halves("asked"), explain=True))
        assert has_capacity == (fresh.node is not None)
        assert (remembered.node, remembered.shares) == (fresh.node, fresh.shares)
        assert remembered.fitting.worst_first() == fresh.fitting.worst_first()
        assert {n: r.text for n, r in remembered.refusals.items()} == {n: r.text for n, r in fresh.refusals.items()}
