"""Attempts to make room, and what further Filters of their pods do to them."""

from math import inf

from builders import pod

from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.nominations import Nominations
from gpuloom.scheduler.preemption.attempts import WAIT_S, PreemptionAttempts
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.nodenames import NodeNames

ALL, ONE = NodeNames(b'["n1","n2","n3"]'), NodeNames(b'["n1"]')
STATE = SchedulerState(SchedulerSettings())
ANY = -inf


def make() -> PreemptionAttempts:
    return PreemptionAttempts(True, Nominations())


def refuse(
    attempts: PreemptionAttempts,
    now: float,
    names: NodeNames = ALL,
    memory_mib: int = 1000,
    *,
    is_certain: bool = False,
) -> Demands:
    refused = pod(name="high", gpu=1, gpumem=memory_mib)
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
