"""Which nominations are taken over that another leader has written on pods."""

from datetime import UTC, datetime
from typing import Literal

from builders import pod
from msgspec.structs import replace

from gpuloom.scheduler.preemption.nominating import LIMIT_S, adopt_nominations, nominate
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import NOMINATED
from gpuloom.wire.nomination import encode_nomination

NOW = 1_000_000


def adopt(written_at: int, *, preemption: Literal["off", "on"] = "on", bound_to: str = "") -> SchedulerState:
    """Take over what is written on a pod."""
    state = SchedulerState(SchedulerSettings(preemption=preemption))
    text = encode_nomination("n1", datetime.fromtimestamp(written_at, UTC))
    high = pod(name="high", gpu=1, annotations={NOMINATED: text})
    state.shown.pods["uid-high"] = replace(high, spec=replace(high.spec, node_name=bound_to))
    adopt_nominations(state, NOW)
    return state


def test_what_was_written_not_long_ago_is_taken_over_as_old_as_it_is() -> None:
    assert [(one.node, one.since) for one in adopt(NOW - LIMIT_S).nominations] == [("n1", NOW - LIMIT_S)]


def test_what_was_written_too_long_ago_is_not_taken_over() -> None:
    assert not adopt(NOW - LIMIT_S - 1).nominations


def test_what_was_written_by_a_clock_that_is_ahead_ends_no_later() -> None:
    assert [one.since for one in adopt(NOW + 100).nominations] == [NOW]


def test_without_preemption_nothing_is_taken_over() -> None:
    assert not adopt(NOW, preemption="off").nominations


def test_a_bound_pod_is_not_nominated() -> None:
    assert not adopt(NOW, bound_to="n1").nominations


def test_what_was_known_and_is_not_written_ends_with_the_term() -> None:
    state = SchedulerState(SchedulerSettings(preemption="on"))
    state.shown.pods["uid-high"] = pod(name="high", gpu=1)
    nominate(state, "uid-high", "n1", NOW)
    adopt_nominations(state, NOW)
    assert [end.cause for end in state.nominations.ended] == ["term"]
