"""What is known of calls while they come."""

import pytest

from gpuloom.scheduler.http import timing
from gpuloom.scheduler.http.timing import Latencies


@pytest.mark.parametrize(("apart_s", "expected"), [(0.0, False), (60.0, True)])
def test_calls_keep_the_process_busy_until_the_next_one_may_have_come(
    monkeypatch: pytest.MonkeyPatch, apart_s: float, *, expected: bool
) -> None:
    monkeypatch.setattr(timing, "BUSY_S", apart_s)
    latencies = Latencies()
    assert not latencies.is_busy
    latencies.observe("filter", 0.001)
    assert latencies.is_busy is expected


def test_a_call_that_is_underway_keeps_the_process_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "BUSY_S", 0.0)
    latencies = Latencies()
    latencies.underway += 1
    assert latencies.is_busy
