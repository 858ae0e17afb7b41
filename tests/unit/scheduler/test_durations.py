from datetime import timedelta

import pytest

from gpuloom.scheduler.durations import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (28, "28s"), (60, "1m0s"), (300, "5m0s"), (3600, "1h0m0s"), (3661, "1h1m1s")]
)
def test_durations_are_written_as_go_does(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
