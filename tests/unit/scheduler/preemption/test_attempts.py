"""Attempts to make room, and what further Filters of their pods do to them."""

from math import inf
from typing import Any

import pytest
from builders import pod
from msgspec.structs import replace

from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.scheduler.preemption.attempts import WAIT_S, PreemptionAttempts
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

ALL, ONE = NodeNames(b'["n1","n2","n3"]'), NodeNames(b'["n1"]')
STATE = SchedulerState(SchedulerSettings())
ANY = -inf


def make() -> PreemptionAttempts:
    return PreemptionAttempts(True, Nominations())


def make_pod(name: str, memory_mib: int = 1000, **spec: Any) -> Pod:
    made = pod(name=name, gpu=1, gpumem=memory_mib)
    return replace(made, spec=replace(made.spec, **spec))


def refuse(
    attempts: PreemptionAttempts,
    now: float,
    names: NodeNames = ALL,
    memory_mib: int = 1000,
    *,
    is_certain: bool = False,
    name: str = "high",
    **spec: Any,
) -> Demands:
    refused = make_pod(name, memory_mib, **spec)
    demands = STATE.settings.read_demands(refused)
    attempts.note_refused(refused, demands, names, now, is_certain=is_certain)
    return demands


def test_who_is_refused_again_is_due_when_it_was() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    refuse(attempts, WAIT_S / 2)
    assert attempts.next_due(ANY) == WAIT_S


def test_who_was_refused_by_all_nodes_with_cards_is_due_at_once() -> None:
    attempts = make()
    refuse(attempts, 0.0, ONE)
    refuse(attempts, 0.01, is_certain=True)
    assert attempts.next_due(ANY) == 0.01


def test_what_failed_is_not_tried_sooner_because_all_nodes_refused_the_pod_again() -> None:
    attempts = make()
    refuse(attempts, 0.0, is_certain=True)
    attempt = attempts.take_due(0.0, ANY)
    assert attempt is not None
    attempts.finish(attempt)
    attempts.put_back(attempt, 9.0)
    refuse(attempts, 2.0, is_certain=True)
    assert attempts.next_due(ANY) == 9.0


def test_the_nodes_of_a_larger_offer_are_looked_at() -> None:
    for first, second in ((ONE, ALL), (ALL, ONE)):
        attempts = make()
        refuse(attempts, 0.0, first)
        refuse(attempts, 0.01, second)
        attempt = attempts.take_due(WAIT_S, ANY)
        assert attempt is not None
        assert attempt.names is ALL


def test_what_failed_is_tried_with_the_nodes_of_the_last_offer_when_it_was_due() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(1.0, ANY)
    assert attempt is not None
    assert attempts.finish(attempt)
    attempts.put_back(attempt, 9.0)
    refuse(attempts, 2.0, ONE)
    assert attempts.take_due(8.9, ANY) is None
    again = attempts.take_due(9.0, ANY)
    assert again is not None
    assert (again.names, again.retries) == (ONE, 1)


def test_a_look_goes_on_when_the_pod_is_refused_meanwhile() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    refuse(attempts, WAIT_S)
    assert len(attempts) == 0
    assert attempts.finish(attempt)


def test_a_look_is_out_of_date_when_the_pod_asks_for_something_else() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    demands = refuse(attempts, WAIT_S, memory_mib=2000)
    assert not attempts.finish(attempt)
    again = attempts.take_due(2 * WAIT_S, ANY)
    assert again is not None
    assert again.demands == demands


def test_a_look_is_out_of_date_when_the_pod_found_room() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    attempts.drop(attempt.uid)
    assert not attempts.finish(attempt)
    assert attempts.next_due(ANY) is None


def test_a_look_at_few_nodes_is_out_of_date_when_more_are_offered() -> None:
    attempts = make()
    refuse(attempts, 0.0, ONE)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    refuse(attempts, WAIT_S, ALL)
    assert not attempts.finish(attempt)
    assert len(attempts) == 1


def test_a_look_is_out_of_date_when_the_pod_has_another_priority() -> None:
    attempts = make()
    refuse(attempts, 0.0, priority=10)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    refuse(attempts, WAIT_S, priority=5)
    assert not attempts.finish(attempt)


def test_a_look_is_out_of_date_when_others_may_be_evicted_for_the_pod_no_more() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    refuse(attempts, WAIT_S, preemption_policy="Never")
    assert not attempts.finish(attempt)


def test_no_room_is_looked_for_while_it_is_made() -> None:
    attempts = make()
    demands = STATE.settings.read_demands(make_pod("high"))
    attempts.nominations.put(Nomination("uid-high", "default", "high", "n1", 0, demands, 0))
    refuse(attempts, 0.0)
    assert attempts.next_due(ANY) is None


def test_what_the_pod_asks_for_by_now_is_looked_at_where_what_it_asked_for_failed() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    demands = refuse(attempts, WAIT_S, memory_mib=2000)
    attempts.put_back(attempt, 0.0)
    again = attempts.take_due(2 * WAIT_S, ANY)
    assert again is not None
    assert again.demands == demands


def fill_in(attempts: PreemptionAttempts) -> None:
    """Let the second pod be the most important one, and the third as important as the first."""
    for now, (name, priority) in enumerate((("first", 1), ("second", 2), ("third", 1))):
        refuse(attempts, float(now), name=name, priority=priority)


def take_all(attempts: PreemptionAttempts, least_priority: float = ANY) -> list[str]:
    found = []
    while attempt := attempts.take_due(9.0, least_priority):
        found.append(attempt.uid)
    return found


def test_the_most_important_is_looked_at_first_and_of_equal_ones_who_was_refused_first() -> None:
    attempts = make()
    fill_in(attempts)
    refuse(attempts, 3.0, name="first", priority=1)
    refuse(attempts, 0.5, name="told-late", priority=1)
    assert take_all(attempts) == ["uid-second", "uid-first", "uid-told-late", "uid-third"]


def test_those_of_the_least_priority_are_looked_at() -> None:
    attempts = make()
    fill_in(attempts)
    assert take_all(attempts, 2) == ["uid-second"]


def test_of_too_many_the_least_important_that_came_last_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.scheduler.preemption.attempts.MOST_ATTEMPTS", 2)
    attempts = make()
    fill_in(attempts)
    assert take_all(attempts) == ["uid-second", "uid-first"]
    assert attempts.ignored == 1


def test_of_too_many_that_came_at_once_the_last_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.scheduler.preemption.attempts.MOST_ATTEMPTS", 2)
    attempts = make()
    for name in ("first", "second", "third"):
        refuse(attempts, 0.0, name=name)
    assert take_all(attempts) == ["uid-first", "uid-second"]


def test_nothing_waits_and_no_look_goes_on_when_pods_are_to_be_refused_anew() -> None:
    attempts = make()
    refuse(attempts, 0.0, name="underway")
    attempt = attempts.take_due(WAIT_S, ANY)
    assert attempt is not None
    refuse(attempts, 0.0, name="waits")
    attempts.clear()
    assert (len(attempts), attempts.finish(attempt)) == (0, False)


def test_who_looks_is_told_of_a_pod_that_is_refused() -> None:
    attempts = make()
    refuse(attempts, 0.0)
    assert attempts.changed.is_set()
