"""Who must wait, and whose limits count."""

from hypothesis import given
from hypothesis import strategies as st

from gpuloom.node.monitor.feedback import Activity, Verdict, judge

A, B = "GPU-a", "GPU-b"


def one(recent, priority, *cards):
    return Activity(recent, priority, cards or (A,))


def test_the_worked_example_of_high_and_low_priority():
    """High (0, recent 2) and low (1, recent 2) on one card; then high stays idle for one more period."""
    first = judge([one(2, 0), one(2, 1)])
    assert first == (Verdict(recent=1, switch=0), Verdict(recent=-1, switch=1))
    assert judge([one(first[0].recent, 0), one(first[1].recent, 1)]) == (Verdict(0, 0), Verdict(0, 0))


def test_two_active_containers_of_one_priority_are_both_limited():
    assert judge([one(2, 1), one(2, 1)]) == (Verdict(1, 1), Verdict(1, 1))


def test_one_alone_may_use_the_whole_card():
    assert judge([one(2, 1)]) == (Verdict(1, 0),)


def test_an_idle_container_of_lower_priority_is_blocked_too():
    assert judge([one(2, 0), one(0, 1)])[1] == Verdict(-1, 1)


def test_a_blocked_container_stays_blocked_while_its_better_is_active():
    assert judge([one(3, 0), one(-1, 1)])[1] == Verdict(-1, 1)


def test_containers_on_different_cards_do_not_meet():
    assert judge([one(2, 0, A), one(2, 1, B)]) == (Verdict(1, 0), Verdict(1, 0))


def test_one_shared_card_is_enough_to_be_blocked():
    assert judge([one(2, 0, A), one(2, 1, B, A)])[1] == Verdict(-1, 1)


def test_an_active_container_of_lower_priority_does_not_contend():
    assert judge([one(2, 0), one(2, 1), one(2, 1)])[0] == Verdict(1, 0)


def test_a_negative_priority_counts_for_nobody():
    assert judge([one(2, -1), one(2, 0)]) == (Verdict(1, 0), Verdict(1, 0))


def test_a_last_tick_is_no_activity():
    assert judge([one(1, 0), one(2, 1)]) == (Verdict(0, 0), Verdict(1, 0))


activities = st.lists(
    st.builds(
        Activity,
        st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 3),
        st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 2),
        st.lists(st.sampled_from([A, B, "GPU-c"]), unique=True, max_size=3).map(tuple),
    ),
    max_size=6,
)


@given(activities)
def test_whatever_is_told_every_verdict_fits_its_field(told):
    assert all(-(2**31) <= verdict.recent < 2**31 and verdict.switch in {0, 1} for verdict in judge(told))


@given(activities)
def test_a_container_of_the_best_priority_on_a_node_is_never_blocked(told):
    if told:
        best = min(each.priority for each in told)
        verdicts = zip(told, judge(told), strict=True)
        assert all(verdict.recent >= 0 for each, verdict in verdicts if each.priority == best)


@given(activities)
def test_idle_nodes_end_with_nobody_blocked(told):
    for _ in range(2):
        told = [
            Activity(min(verdict.recent, 1), each.priority, each.cards)
            for each, verdict in zip(told, judge(told), strict=True)
        ]
    told = [
        Activity(verdict.recent, each.priority, each.cards) for each, verdict in zip(told, judge(told), strict=True)
    ]
    assert all(each.recent == 0 for each in told)
